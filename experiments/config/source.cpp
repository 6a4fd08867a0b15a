#include "experiments/config/source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/wording.h"
#include "framework/error.h"

namespace heddle {

Source::Source(std::string file) {
  origins_.push_back({std::move(file), "", ""});
}

std::uint32_t Source::add_patch(std::string pointer) {
  origins_.push_back({file(), std::move(pointer), ""});
  return static_cast<std::uint32_t>(origins_.size() - 1);
}

std::uint32_t Source::add_set(std::string_view dotted, std::string pointer) {
  origins_.push_back({"--set " + shortened(dotted, 200), "", std::move(pointer)});
  return static_cast<std::uint32_t>(origins_.size() - 1);
}

std::string Source::where(std::uint32_t index, std::string_view pointer) const {
  const Origin& origin = origins_.at(index);
  if (!origin.set_target.empty() && origin.set_target == pointer) return origin.place;
  const std::string full = origin.prefix + std::string(pointer);
  return full.empty() ? origin.place : fmt::format("{}: {}", origin.place, shortened(full, 200));
}

bool Problems::is_full() const {
  return problems_.size() >= 10 * max_problems;
}

void Problems::add(std::uint32_t order, std::string text) {
  const auto is_same = [&](const Problem& problem) { return problem.text == text; };
  if (std::any_of(problems_.begin(), problems_.end(), is_same)) return;
  if (is_full()) {
    skip_one();
  } else {
    problems_.push_back({order, std::move(text)});
  }
}

void Problems::raise() {
  if (problems_.empty()) return;
  std::stable_sort(problems_.begin(), problems_.end(),
                   [](const Problem& a, const Problem& b) { return a.order < b.order; });
  const std::size_t shown = std::min(problems_.size(), max_problems);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? "\n" : "") + problems_[i].text;
  const std::size_t rest = problems_.size() - shown + more_;
  if (rest > 0) text += fmt::format("\n... and {}{} more", more_ > 0 ? "at least " : "", rest);
  throw InputError(text);
}

}  // namespace heddle
