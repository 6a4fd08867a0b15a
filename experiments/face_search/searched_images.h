// The images of a search: their names, and their embeddings or the image files to embed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/export/npy.h"
#include "experiments/face_search/name_list.h"

namespace heddle {

struct SearchedImages {
  std::string path;  // as it was given
  NameList names;
  /// The part of each name that no person's name is in: the folder in which the people are.
  std::size_t folder_size = 0;
  std::vector<std::string> files;            // images that are to be embedded; empty with `embeddings`
  std::optional<NpyReader> embeddings = {};  // one row for each name
};

/// Opens a folder of images, an image, or a .npy of embeddings with `dimension` features and, beside it, the names of
/// its rows. InputError if there are no images, or if the .npy or its names do not fit.
SearchedImages open_searched_images(const std::filesystem::path& path, std::int64_t dimension);

/// InputError if an embedding has no direction, because a number is not finite or all are 0. Row i of the embeddings is
/// that of image `image_of(i)`.
void check_embeddings(const SearchedImages& images, std::span<const float> rows, std::int64_t dimension,
                      const std::function<std::int64_t(std::int64_t)>& image_of);

/// Reads all rows of the images' .npy, a few thousand at a time, in the order of `image_of`, which may be empty.
void read_embeddings(const SearchedImages& images, const std::function<std::int64_t(std::int64_t)>& image_of,
                     const std::function<void(std::span<const float>)>& use);

}  // namespace heddle
