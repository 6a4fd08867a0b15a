#include "experiments/data/files/file_set.h"

#include <fmt/core.h>

#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

void SampleList::add(std::string_view path, std::int64_t label, double weight) {
  if (weight != 1 && weights_.empty()) weights_.assign(labels_.size(), 1);
  if (weight != 1 || has_weights()) weights_.push_back(weight);
  paths_ += path;
  ends_.push_back(paths_.size());
  labels_.push_back(label);
}

std::string_view SampleList::path(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(paths_).substr(begin, ends_[i] - begin);
}

void expect_people(const FileSet& files, std::int64_t people, std::int64_t min_images) {
  if (files.classes >= people) return;
  fail<InputError>("{}: {} with {}; at least {} needed", files.title, counted(files.classes, "person", "people"),
                   min_images > 1 ? fmt::format("at least {} images", min_images) : "training images",
                   people == 1 ? "1 is" : fmt::format("{} are", people));
}

std::string note_of_rare(std::string_view title, std::int64_t people, std::int64_t min_images, std::int64_t images) {
  return fmt::format("{}: {} with fewer than {} {} left out ({})", title, counted(people, "person", "people"),
                     counted(min_images, "image", "images"), people == 1 ? "is" : "are",
                     counted(images, "image", "images"));
}

}  // namespace heddle
