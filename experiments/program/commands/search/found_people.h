// The result of a search, as the command prints and writes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/face_search/gallery.h"
#include "framework/files/atomic_file.h"

namespace heddle {

struct SearchThreshold {
  double similarity = 0;
  std::string from{};  // in words; empty: given by the user
};

/// The nearest people to each probe; similarities are cosines.
struct FoundPeople {
  std::string checkpoint;
  std::int64_t steps = 0;
  std::string gallery_path;
  const Gallery* gallery = nullptr;
  std::optional<SearchThreshold> threshold{};
  std::vector<std::string> probes{};  // the images' names
  std::vector<Neighbours> nearest{};  // of each probe

  std::string person(const Neighbour& found) const { return std::string(gallery->people().name(found.group)); }
  std::string image(const Neighbour& found) const {
    return std::string(gallery->people().image_name(gallery->shown_image(found)));
  }
  /// Whether the similarity is enough; nothing without a threshold.
  std::optional<bool> matches(const Neighbour& found) const {
    return threshold ? std::optional(found.cosine >= threshold->similarity) : std::nullopt;
  }
};

/// In words: the gallery, how people are compared, and the threshold.
std::string search_header(const FoundPeople& found);
std::string search_table(const FoundPeople& found);
std::string search_json(const FoundPeople& found);
std::string search_csv(const FoundPeople& found);

/// A page with each probe beside the people who were found, which loads nothing: small copies of the images are in it.
/// An image whose file is not there, or cannot be read, is an empty frame.
void write_search_sheet(AtomicFile& file, const FoundPeople& found);

}  // namespace heddle
