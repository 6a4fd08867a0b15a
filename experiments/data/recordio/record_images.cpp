#include "experiments/data/recordio/record_images.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include <fmt/ranges.h>

#include "experiments/data/files/class_weights.h"
#include "experiments/data/recordio/face_records.h"
#include "framework/description/describe.h"
#include "framework/error.h"
#include "framework/files/crc32c.h"

namespace heddle {
namespace {

class RecordImages final : public EncodedImages {
 public:
  RecordImages(const RecordImagesConfig& config, const Preprocessing& preprocessing)
      : EncodedImages(preprocessing, config.on_broken), train_(open(config.train)) {
    if (!config.test.empty()) test_ = open(config.test);
    if (train_->classes() < 2)
      fail<InputError>("\"{}\": expected images of at least 2 people, got 1", train_->path().string());
    if (const std::int64_t without = train_->classes_without_images(); without > 0)
      add_note(
          fmt::format("\"{}\": {} of {} people have no image", train_->path().string(), without, train_->classes()));
    if (!config.class_weights.empty()) weigh(config.class_weights);
  }

  std::int64_t classes() const override { return train_->classes(); }
  std::int64_t size(Split split) const override {
    if (split == Split::train) return train_->size();
    return test_ ? test_->size() : 0;
  }
  std::int64_t label(Split split, std::int64_t index) const override { return records(split, index).label(index); }
  bool has_weights() const override { return !class_weights_.empty(); }
  double weight(std::int64_t index) const override {
    return has_weights() ? class_weights_[static_cast<std::size_t>(label(Split::train, index))] : 1;
  }
  std::string sample_name(Split split, std::int64_t index) const override { return records(split, index).name(index); }
  std::span<const std::uint8_t> encoded(Split split, std::int64_t index,
                                        std::vector<std::uint8_t>& buffer) const override {
    return records(split, index).image(index, buffer);
  }
  /// Records have no names, and their bytes are counted together.
  std::optional<ImagesChecksum> training_checksum() const override {
    std::call_once(has_checksum_, [this] { checksum_ = checksum_of_training(); });
    return checksum_;
  }

 private:
  ImagesChecksum checksum_of_training() const {
    ImagesChecksum checksum{.images = train_->size()};
    for (std::int64_t i = 0; i < train_->size(); ++i)
      checksum.names = crc32c(fmt::format("{}\n", train_->label(i)), checksum.names);
    if (has_weights()) checksum.names = crc32c(fmt::format("{}\n", fmt::join(class_weights_, " ")), checksum.names);
    std::error_code error;
    checksum.sizes = crc32c(fmt::format("{}", std::filesystem::file_size(train_->path(), error)));
    return checksum;
  }

  /// Opens a file; with OnBroken::skip, records that cannot be used are left out.
  std::unique_ptr<const FaceRecords> open(const std::string& path) const {
    std::int64_t broken = 0;
    std::string example;
    OnBrokenRecord leave_out;
    if (on_broken() == OnBroken::skip)
      leave_out = [&](const std::string& message) {
        if (broken++ == 0) example = message;
        if (broken <= static_cast<std::int64_t>(max_named)) add_note(message);
      };
    auto records = std::make_unique<const FaceRecords>(path, leave_out);
    if (const std::string note = records->index_note(); !note.empty()) add_note(note);
    if (broken > static_cast<std::int64_t>(max_named))
      add_note(fmt::format("\"{}\": {} records were left out", path, broken));
    check_share_of_broken(broken, broken + records->size(), example);
    return records;
  }

  void weigh(const std::string& file) {
    std::vector<bool> has_image(static_cast<std::size_t>(train_->classes()));
    for (std::int64_t i = 0; i < train_->size(); ++i) has_image[static_cast<std::size_t>(train_->label(i))] = true;
    ClassWeights weights(file, ClassWeights::Names::numbers);
    for (std::int64_t label = 0; label < train_->classes(); ++label) {
      const std::string person = std::to_string(label);
      weights.accept(person);
      class_weights_.push_back(has_image[static_cast<std::size_t>(label)] ? weights.of(person) : 1);
    }
    if (std::all_of(class_weights_.begin(), class_weights_.end(), [](double weight) { return weight == 1; }))
      class_weights_.clear();
    std::vector<std::string> notes;
    weights.finish(fmt::format("\"{}\"", train_->path().string()), notes);
    for (std::string& note : notes) add_note(std::move(note));
  }

  const FaceRecords& records(Split split, std::int64_t index) const {
    if (index < 0 || index >= size(split))
      fail("\"{}\": sample {} is out of range, there are {}", train_->path().string(), index, size(split));
    return split == Split::train ? *train_ : *test_;
  }

  std::unique_ptr<const FaceRecords> train_;
  std::vector<double> class_weights_;        // empty: all are 1
  std::unique_ptr<const FaceRecords> test_;  // null if there is none
  mutable std::once_flag has_checksum_;
  mutable ImagesChecksum checksum_;
};

}  // namespace

void describe(Describer& d, RecordImagesConfig& c) {
  d.field(required("train"), c.train, "file NAME.rec, read through the index NAME.idx beside it if there is one");
  d.field("test", c.test, "another .rec, with the same labels for the same people; empty: no test images");
  describe_image(d, c.image);
  describe_class_weights(d, c.class_weights);
  describe_on_broken(d, c.on_broken);
}

std::unique_ptr<const Dataset> open_data(const RecordImagesConfig& config, const Preprocessing& preprocessing,
                                         RandomKey /*seed*/) {
  return std::make_unique<RecordImages>(config, preprocessing);
}

}  // namespace heddle
