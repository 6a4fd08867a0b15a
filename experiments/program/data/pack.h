// Packs images into a `.rec` as InsightFace does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/data/recordio/face_writer.h"
#include "experiments/program/data/stored_images.h"

namespace heddle {

struct PackOptions {
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool skip_broken = false;
  bool replace = false;  ///< whether existing files are replaced
};

struct Packed {
  std::int64_t images = 0;
  std::int64_t people = 0;          ///< who have images in the file
  std::int64_t encoded = 0;         ///< the number of images that were not JPEG before
  std::uint64_t bytes = 0;          ///< the size of the `.rec`
  std::vector<BrokenImage> broken;  ///< the images that were left out
  /// The content of the file `property`, which is not written if an existing one has as many classes.
  FaceProperty property;
};

/// Writes OUT.rec, OUT.idx and `property`. If one of them cannot be put in its place, none of them stays, and the files
/// that were replaced until then are lost. Every image is decoded, so that broken ones are found; the bytes of a JPEG
/// are copied. InputError if an image is broken, or if a file would be replaced against the options.
Packed pack_images(const StoredImages& images, const std::filesystem::path& out, const PackOptions& options,
                   const OnImages& on_images);

}  // namespace heddle
