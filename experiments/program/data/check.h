// Decodes all images of some data, and reports which are broken, or too small for an experiment's crop.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/program/data/stored_images.h"

namespace heddle {

struct DataCheck {
  std::int64_t images = 0;  ///< all, including those that are broken
  std::int64_t broken = 0;
  std::vector<BrokenImage> first;               ///< the first broken ones, in the order of the images
  std::map<std::string, std::int64_t> reasons;  ///< the number of images per reason, with .. in place of numbers
};

/// The largest number of broken images that are listed.
inline constexpr std::size_t max_listed = 100;

/// Decodes on all cores.
DataCheck check_images(const StoredData& data, const OnImages& on_images);

std::string check_text(const StoredData& data, const DataCheck& check);
std::string check_json(const StoredData& data, const DataCheck& check);

}  // namespace heddle
