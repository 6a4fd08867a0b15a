#include "experiments/data/several_sets.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/error.h"
#include "framework/files/crc32c.h"

namespace heddle {

SeveralSets::SeveralSets(std::vector<Part> parts)
    : Dataset(parts.front().data->preprocessing()), parts_(std::move(parts)), noted_(parts_.size()) {
  for (const Part& part : parts_)
    if (part.data->image().size() != image().size())
      fail("data set {}: its images differ in size from those of the first set", part.name);
}

bool SeveralSets::is_encoded() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.data->is_encoded(); });
}

std::optional<ImagesChecksum> SeveralSets::training_checksum() const {
  std::optional<ImagesChecksum> all;
  for (const Part& part : parts_) {
    const std::optional<ImagesChecksum> own = part.data->training_checksum();
    if (!own) continue;
    if (!all) all.emplace();
    all->images += own->images;
    all->names = crc32c(fmt::format("{} {:08x}\n", part.name, own->names), all->names);
    all->sizes = crc32c(fmt::format("{} {:08x}\n", part.name, own->sizes), all->sizes);
  }
  return all;
}

std::vector<std::string> SeveralSets::notes(std::size_t first) const {
  const std::lock_guard guard(lock_);
  for (std::size_t set = 0; set < parts_.size(); ++set)
    for (const std::string& note : parts_[set].data->notes(noted_[set])) {
      notes_.push_back(fmt::format("{}: {}", parts_[set].name, note));
      ++noted_[set];
    }
  const auto begin = notes_.begin() + static_cast<std::ptrdiff_t>(std::min(first, notes_.size()));
  return {begin, notes_.end()};
}

std::int64_t SeveralSets::broken_images() const {
  std::int64_t broken = 0;
  for (const Part& part : parts_) broken += part.data->broken_images();
  return broken;
}

}  // namespace heddle
