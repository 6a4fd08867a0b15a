// The images that `heddle data` packs, shows and checks, as they are stored: those of a folder, a list, a `.rec`, a
// `.bin` or an experiment's `data`. Opening them decodes none of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/data/data_config.h"
#include "experiments/data/parallel_for.h"

namespace heddle {

/// An image that cannot be used, and why.
struct BrokenImage {
  std::string name;  ///< a file, or "faces.rec, record 3"
  std::string reason;

  std::string text() const { return name + ": " + reason; }
};

/// Takes the reason from the message of an InputError, which begins with the name.
BrokenImage broken_image(const std::string& name, const std::string& message);

/// Const members may be called from several threads concurrently.
class StoredImages {
 public:
  virtual ~StoredImages() = default;

  virtual std::int64_t size() const = 0;
  /// -1 for an image whose person is not known.
  virtual std::int64_t label(std::int64_t i) const = 0;
  virtual std::string name(std::int64_t i) const = 0;
  /// The bytes of an image, which lie in `buffer` or in memory that this object keeps. InputError if they cannot be
  /// read.
  virtual std::span<const std::uint8_t> encoded(std::int64_t i, std::vector<std::uint8_t>& buffer) const = 0;
  /// Reads only the beginning of a file. InputError if the header is broken.
  virtual ImageHeader header(std::int64_t i) const;

  /// The name of these images in messages, such as `image folder "faces"`.
  const std::string& title() const { return title_; }
  /// The labels of people with training images are below this number; people who are only tested have those that
  /// follow.
  std::int64_t classes() const { return classes_; }
  /// What there is to report: images that `min_images` and lists of people left out, or the number of pairs.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Images that could not even be listed. size() does not count them.
  const std::vector<BrokenImage>& broken() const { return broken_; }

 protected:
  std::string title_;
  std::int64_t classes_ = 0;
  std::vector<std::string> notes_;
  std::vector<BrokenImage> broken_;
};

/// One split of an experiment's data, or all images of anything else.
struct StoredSplit {
  Split split = Split::train;
  std::unique_ptr<const StoredImages> images;
};

struct StoredData {
  std::vector<StoredSplit> splits;  ///< the second, if there is one, is for testing
  // Only an experiment gives these:
  std::optional<OnBroken> on_broken;
  std::optional<Preprocessing> preprocessing;  ///< needs images of some size
  bool has_people = true;                      ///< false for a .bin, which has pairs instead
};

/// The arguments of the command line that select the images.
struct StoredInput {
  std::filesystem::path path;
  std::vector<std::string> sets;  ///< for an experiment: a.b=json
  std::string people;             ///< for a folder: a file with the people to use; empty: all
};

/// InputError if the input does not exist or cannot be opened.
StoredData open_stored(const StoredInput& input);

/// Called with the number of images that are done.
using OnImages = std::function<void(std::int64_t done)>;

/// Calls `make(i)` for i = 0 .. size-1 on all cores, and `use(i, result)` in that order; at most `piece` results are
/// held at a time.
template <class Make, class Use>
void in_pieces(std::int64_t size, std::int64_t piece, Make make, Use use, const OnImages& on_images) {
  for (std::int64_t first = 0; first < size; first += piece) {
    std::vector<decltype(make(first))> results(static_cast<std::size_t>(std::min(piece, size - first)));
    const auto count = static_cast<std::int64_t>(results.size());
    parallel_for(count, [&](std::int64_t i) { results[static_cast<std::size_t>(i)] = make(first + i); });
    for (std::int64_t i = 0; i < count; ++i) use(first + i, results[static_cast<std::size_t>(i)]);
    on_images(first + count);
  }
}

}  // namespace heddle
