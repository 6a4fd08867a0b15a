// Lists of images with the people that they show: `image person`. A person is whatever text the column holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace heddle {

/// Who is asked for, and among whom: the images of the gallery, of distractors and of probes, in this order.
struct IdentificationSet {
  std::vector<std::string> files;
  std::vector<std::int64_t> labels;  // distractors have `nobody`
  std::int64_t gallery = 0;          // images, distractors among them; the others are probes
};

/// Reads three lists of images in a folder; that of the distractors has no people, and is left out if empty. InputError
/// names the list, the line and what is wrong; or says that no probe is of a person in the gallery.
IdentificationSet read_identification_set(const std::filesystem::path& gallery, const std::filesystem::path& probes,
                                          const std::filesystem::path& distractors,
                                          const std::filesystem::path& folder);

}  // namespace heddle
