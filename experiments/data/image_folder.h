// One folder for each identity, one file for each image. Files are decoded and resized when they are read; only their
// names are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/encoded_images.h"

namespace heddle {

class Describer;

struct ImageFolderConfig {
  std::string path;
  std::vector<std::int64_t> image = {3, 112, 112};
  std::int64_t train_per_identity = 1;
  std::int64_t test_per_identity = 0;

  /// The number of identities, as far as it is known before the images are opened.
  static std::optional<std::int64_t> known_classes() { return {}; }
};
void describe(Describer& d, ImageFolderConfig& config);
/// InputError if the folder cannot be used. The seed has no effect.
std::unique_ptr<const Dataset> open_data(const ImageFolderConfig& config, const Preprocessing& preprocessing,
                                         RandomKey seed);

/// Digits compare as numbers: "2.pgm" before "10.pgm".
bool natural_less(std::string_view a, std::string_view b);

/// Labels are the identity folders in natural order. Hidden entries, files beside the folders, and files whose names do
/// not end in .pgm, .ppm, .pnm, .png, .jpg or .jpeg are passed over; links are followed.
class ImageFolder final : public EncodedImages {
 public:
  /// Folders of up to this many images are decoded once at the start, so that a broken file is found before training;
  /// in larger ones only headers and the length of binary PGM and PPM are checked (decoding a million faces would take
  /// minutes), and other damage is found when the file is read.
  static constexpr std::int64_t decoded_at_start = 4096;

  ImageFolder(const ImageFolderConfig& config, Preprocessing preprocessing);

  std::int64_t classes() const override { return static_cast<std::int64_t>(identities_.size()); }
  std::int64_t size(Split split) const override;
  std::int64_t label(Split split, std::int64_t index) const override;
  /// The file's path.
  std::string sample_name(Split split, std::int64_t index) const override;
  std::span<const std::uint8_t> encoded(Split split, std::int64_t index,
                                        std::vector<std::uint8_t>& buffer) const override;

 private:
  struct Identity {
    std::string folder;
    std::vector<std::string> files;
    std::int64_t first_test = 0;
  };
  struct Place {
    std::int64_t identity;
    std::int64_t file;
  };

  void list_identities();
  void list_files(Identity& identity, std::int64_t test_per_identity);
  void probe() const;
  Place place(Split split, std::int64_t index) const;
  std::string path_of(const Place& place) const;

  std::string path_;
  std::int64_t train_per_identity_;
  std::int64_t test_size_ = 0;
  std::vector<Identity> identities_;
};

}  // namespace heddle
