// Several data sets of one training, opened as one. Each has its own samples, labels and random order.
#pragma once

#include <mutex>

#include "experiments/data/dataset.h"

namespace heddle {

class SeveralSets final : public Dataset {
 public:
  struct Part {
    std::string name;
    std::shared_ptr<const Dataset> data;
  };

  /// At least one part; their images have the same shape.
  explicit SeveralSets(std::vector<Part> parts);

  std::size_t sets() const override { return parts_.size(); }
  const Dataset& set(std::size_t index) const override { return *parts_[index].data; }

  // These members describe the first set.
  std::int64_t classes() const override { return set(0).classes(); }
  std::int64_t size(Split split) const override { return set(0).size(split); }
  std::int64_t label(Split split, std::int64_t index) const override { return set(0).label(split, index); }
  bool has_weights() const override { return set(0).has_weights(); }
  double weight(std::int64_t index) const override { return set(0).weight(index); }
  std::vector<std::string> class_names() const override { return set(0).class_names(); }
  std::string sample_name(Split split, std::int64_t index) const override { return set(0).sample_name(split, index); }
  void read(Split split, std::int64_t index, std::span<float> pixels) const override {
    set(0).read(split, index, pixels);
  }

  /// Whether the images of at least one set are encoded.
  bool is_encoded() const override;
  /// One checksum over all sets that have one.
  std::optional<ImagesChecksum> training_checksum() const override;
  /// The notes of all sets, each with its set's name.
  std::vector<std::string> notes(std::size_t first) const override;
  std::int64_t broken_images() const override;

 private:
  std::vector<Part> parts_;
  // Remarks have to keep their numbers when a set adds one.
  mutable std::mutex lock_;
  mutable std::vector<std::string> notes_{};
  mutable std::vector<std::size_t> noted_{};  // the number of notes taken from each set
};

}  // namespace heddle
