// Lists of images with the people that they show: `image person`. A person's name may be any text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace heddle {

/// The images of a gallery, of distractors and of probes, in this order.
struct IdentificationSet {
  std::vector<std::string> files;
  std::vector<std::int64_t> labels;  // `distractor` for distractors
  std::int64_t gallery = 0;          // number of images, distractors included; the others are probes
};

/// Reads three lists of images in a folder. The list of distractors has no people; its path may be empty. InputError
/// names the list, the line and what is wrong, or says that no probe shows a person of the gallery.
IdentificationSet read_identification_set(const std::filesystem::path& gallery, const std::filesystem::path& probes,
                                          const std::filesystem::path& distractors,
                                          const std::filesystem::path& folder);

}  // namespace heddle
