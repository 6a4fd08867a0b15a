#include "experiments/face_search/people.h"

#include <unordered_map>

namespace heddle {

People::People(const SearchedImages& images) : images_(images) {
  std::unordered_map<std::string_view, std::int64_t> numbers;
  std::vector<std::int64_t> people;  // of each image
  std::vector<std::int64_t> counts;
  bool is_sorted = true;
  for (std::int64_t i = 0; i < images.names.size(); ++i) {
    const auto [found, is_new] = numbers.try_emplace(person_of(i), static_cast<std::int64_t>(counts.size()));
    if (is_new) counts.push_back(0);
    is_sorted = is_sorted && (people.empty() || people.back() <= found->second);
    people.push_back(found->second);
    ++counts[static_cast<std::size_t>(found->second)];
  }
  starts_.assign(1, 0);
  for (const std::int64_t count : counts) starts_.push_back(starts_.back() + count);
  if (is_sorted) return;
  order_.resize(people.size());
  std::vector<std::int64_t> next = starts_;
  for (std::size_t i = 0; i < people.size(); ++i)
    order_[static_cast<std::size_t>(next[static_cast<std::size_t>(people[i])]++)] = static_cast<std::int64_t>(i);
}

std::string_view People::name(std::int64_t person) const {
  return person_of(image(starts_[static_cast<std::size_t>(person)]));
}

std::string_view People::person_of(std::int64_t image) const {
  const std::string_view name = images_.names[image].substr(images_.folder_size);
  return name.substr(0, name.find('/'));
}

}  // namespace heddle
