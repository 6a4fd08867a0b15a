// The base of data sets whose images are encoded as JPEG, PNG or PNM, in files or in records. A derived class says
// where the bytes of a sample are; this one decodes and preprocesses them, and finds a substitute for those that are
// broken.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/data/dataset.h"
#include "experiments/data/image.h"
#include "framework/description/enum_table.h"

namespace heddle {

/// What happens to an image that cannot be decoded.
enum class OnBroken {
  stop,  ///< an InputError that names it
  skip,  ///< left out when the data are opened; replaced when it is read later
};

template <>
inline constexpr auto enum_names<OnBroken> = enum_table<OnBroken>({
    {OnBroken::stop, "stop"},
    {OnBroken::skip, "skip"},
});

/// The option `on_broken` of a data set.
void describe_on_broken(Describer& d, OnBroken& on_broken);

/// InputError if more than one image, and more than a tenth of all, is broken or smaller than the crop: something else
/// must be wrong.
void check_share_of_broken(std::int64_t broken, std::int64_t images, std::string_view example);

class EncodedImages : public Dataset {
 public:
  EncodedImages(Preprocessing preprocessing, OnBroken on_broken)
      : Dataset(std::move(preprocessing)), on_broken_(on_broken) {}

  OnBroken on_broken() const { return on_broken_; }
  bool is_encoded() const final { return true; }

  /// The bytes of a sample as they are stored. They lie in `buffer` or in memory that the data set keeps, and are valid
  /// until the buffer changes. InputError, which names the sample, if they cannot be read.
  virtual std::span<const std::uint8_t> encoded(Split split, std::int64_t index,
                                                std::vector<std::uint8_t>& buffer) const = 0;

  /// With OnBroken::skip, a broken image is replaced by the next sample of the same person that is sound, and by gray
  /// pixels where there is none. The substitute depends on the data alone, not on which rank reads what and when.
  void read(Split split, std::int64_t index, std::span<float> pixels) const final;

  /// What was left out or replaced so far. The first broken images are named, and all are counted.
  std::vector<std::string> notes(std::size_t first) const override;
  std::int64_t broken_images() const override;

 protected:
  static constexpr std::size_t max_named = 10;

  void add_note(std::string note) const;

 private:
  using Sample = std::pair<Split, std::int64_t>;

  void read_sound(Split split, std::int64_t index, std::span<float> pixels) const;
  /// Writes the image that takes the place of a broken one.
  void read_substitute(const Sample& sample, const std::string& reason, std::span<float> pixels) const;
  /// Writes the next sample of the same person that is sound, and returns its index; nothing if there is none.
  std::optional<std::int64_t> next_sound(const Sample& sample, std::span<float> pixels) const;

  OnBroken on_broken_;
  mutable std::mutex lock_;
  mutable std::map<Sample, std::optional<std::int64_t>> substitutes_;
  mutable std::map<Split, std::int64_t> broken_;  // the number of substitutes
  mutable std::vector<std::string> notes_;
};

}  // namespace heddle
