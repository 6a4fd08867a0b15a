#include "experiments/data/files/class_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "experiments/data/files/list_lines.h"
#include "framework/description/describe.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

void describe_class_weights(Describer& d, std::string& class_weights) {
  d.field("class_weights", class_weights,
          "file with a person and a weight in each line, separated by a blank or a tab: the loss of the person's "
          "training images is multiplied by the weight; people who are not in it have 1; empty: all have 1");
}

double read_weight(const std::string& path, std::int64_t line, std::string_view text) {
  double weight = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (error != std::errc() || stopped != text.data() + text.size() || !std::isfinite(weight) || weight < 0)
    fail<InputError>("{}: line {}: expected a weight, a finite number >= 0, got {}", path, line, in_quotes(text));
  return weight;
}

ClassWeights::ClassWeights(std::string path, Names names) : path_(std::move(path)), names_(names) {
  if (path_.empty()) return;
  for_each_pair(path_, "a person and a weight",
                [&](std::int64_t number, std::string_view person, std::string_view weight) {
                  if (!lines_.emplace(key_of(person), Line{number, read_weight(path_, number, weight)}).second)
                    fail<InputError>("{}: line {}: {} is listed twice", path_, number, in_quotes(person));
                });
  if (lines_.empty()) fail<InputError>("{}: there is no weight in it", path_);
}

std::string ClassWeights::key_of(std::string_view person) const {
  const bool is_number = names_ == Names::numbers && person.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_number) person.remove_prefix(std::min(person.find_first_not_of('0'), person.size() - 1));
  return std::string(person);
}

double ClassWeights::of(std::string_view person) {
  if (is_empty()) return 1;
  const auto found = lines_.find(key_of(person));
  if (found == lines_.end()) {
    ++without_;
    return 1;
  }
  found->second.is_known = true;
  return found->second.weight;
}

void ClassWeights::accept(std::string_view person) {
  if (const auto found = lines_.find(key_of(person)); found != lines_.end()) found->second.is_known = true;
}

void ClassWeights::finish(std::string_view title, std::vector<std::string>& notes) const {
  const std::pair<const std::string, Line>* first = nullptr;
  for (const auto& each : lines_)
    if (!each.second.is_known && (first == nullptr || each.second.number < first->second.number)) first = &each;
  if (first != nullptr)
    fail<InputError>("{}: line {}: {} is not a person of {}", path_, first->second.number, in_quotes(first->first),
                     title);
  if (without_ > 0)
    notes.push_back(
        fmt::format("{}: {} no weight in {}, which means 1", title,
                    counted(without_, "person with training images has", "people with training images have"), path_));
}

}  // namespace heddle
