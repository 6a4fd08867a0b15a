// Summarises some data from the headers of their images, and draws a sheet of some of the images.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/data/image.h"
#include "experiments/program/data/stored_images.h"

namespace heddle {

/// The least, the median (the lower of two) and the largest of some numbers; 0 if there are none.
struct Quantiles {
  std::int64_t least = 0;
  std::int64_t median = 0;
  std::int64_t most = 0;
};
Quantiles quantiles_of(std::vector<std::int64_t> numbers);

/// The number of people who have from `least` to `most` images. The bounds double: 1, 2-3, 4-7 ...
struct PeopleOfImages {
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::int64_t people = 0;
};

struct SplitOverview {
  std::int64_t images = 0;
  std::int64_t people = 0;
  Quantiles images_per_person;
  std::vector<PeopleOfImages> histogram;  ///< from 1 up to the largest number of images, empty ranges included
  Quantiles height;
  Quantiles width;
  std::map<ImageFormat, std::int64_t> formats;
  std::int64_t broken = 0;  ///< images without a header that can be read, or that could not be listed
};

/// Reads headers on all cores.
SplitOverview overview_of(const StoredImages& images, const OnImages& on_images);

std::string overview_text(const StoredData& data, const std::vector<SplitOverview>& splits);
std::string overview_json(const StoredData& data, const std::vector<SplitOverview>& splits);

/// At most 64 of the images, drawn with a fixed seed and kept in order: rows of 8, each in a square of 96 pixels.
/// Broken ones are grey.
Image contact_sheet(const StoredImages& images);

}  // namespace heddle
