#include "experiments/program/reproduce/expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/config/wording.h"
#include "framework/description/wildcard.h"
#include "framework/error.h"

namespace heddle {

namespace {

using Value = nlohmann::ordered_json;
using Numbers = std::vector<double>;

struct ListReduction {
  std::string_view name;
  double (*of)(const Numbers&);
};

double greatest(const Numbers& x) {
  return *std::max_element(x.begin(), x.end());
}
double least(const Numbers& x) {
  return *std::min_element(x.begin(), x.end());
}
double sum_of(const Numbers& x) {
  return std::accumulate(x.begin(), x.end(), 0.0);
}
double mean_of(const Numbers& x) {
  return sum_of(x) / static_cast<double>(x.size());
}
double spread_of(const Numbers& x) {
  const double size = std::max(std::abs(greatest(x)), std::abs(least(x)));
  return size > 0 ? (greatest(x) - least(x)) / size : 0;
}

constexpr std::array<ListReduction, 7> reductions{
    {{"max", greatest},
     {"min", least},
     {"sum", sum_of},
     {"mean", mean_of},
     {"count", [](const Numbers& x) { return static_cast<double>(x.size()); }},
     {"max_over_mean", [](const Numbers& x) { return greatest(x) / mean_of(x); }},
     {"spread", spread_of}}};

std::optional<std::int64_t> index_of(std::string_view text) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(index) : std::nullopt;
}

/// The values that a path has reached: one value, or several if it has passed a list.
struct Reached {
  std::vector<const Value*> values;
  bool is_list = false;
};

[[noreturn]] void lacks(std::string_view path) {
  fail<InputError>("the summary has no {}", path);
}

/// The elements of a list, in place of the list.
void spread_lists(Reached& reached) {
  std::vector<const Value*> elements;
  for (const Value* value : reached.values) {
    if (value->is_array()) {
      reached.is_list = true;
      for (const Value& element : *value) elements.push_back(&element);
    } else {
      elements.push_back(value);
    }
  }
  reached.values = std::move(elements);
}

void follow_key(Reached& reached, std::string_view key, std::string_view path) {
  spread_lists(reached);
  for (const Value*& value : reached.values) {
    if (!value->is_object() || !value->contains(key)) lacks(path);
    value = &value->at(std::string(key));
  }
}

bool has_name(const Value& element, std::string_view pattern) {
  return element.is_object() && element.contains("name") && element["name"].is_string() &&
         matches(pattern, element["name"].get_ref<const std::string&>());
}

void select(Reached& reached, std::string_view selector, std::string_view path) {
  std::vector<const Value*> selected;
  for (const Value* value : reached.values) {
    if (value->is_object()) {
      if (!value->contains(selector)) lacks(path);
      selected.push_back(&value->at(std::string(selector)));
      continue;
    }
    if (!value->is_array()) lacks(path);
    const auto index = index_of(selector);
    const auto size = static_cast<std::int64_t>(value->size());
    if (index && *index < size && *index >= -size)
      selected.push_back(&(*value)[static_cast<std::size_t>(*index < 0 ? *index + size : *index)]);
    for (const Value& element : *value)
      if (has_name(element, selector)) selected.push_back(&element);
  }
  if (selected.empty()) lacks(path);
  reached.is_list |= selector.find('*') != std::string_view::npos || selected.size() > 1;
  reached.values = std::move(selected);
}

Value reduced(Reached reached, const ListReduction& reduction, std::string_view path) {
  spread_lists(reached);
  if (reduction.name == "count")
    return static_cast<double>(reached.values.size());  // also of values that are not numbers
  Numbers numbers;
  for (const Value* value : reached.values) {
    if (!value->is_number()) lacks(fmt::format("number at {}", path));
    numbers.push_back(value->get<double>());
  }
  if (numbers.empty()) lacks(path);
  return reduction.of(numbers);
}

Value single(const Reached& reached, std::string_view path) {
  if (reached.values.size() != 1 || reached.is_list || reached.values[0]->is_structured())
    fail<InputError>("{} is not a single value: a list needs a reduction, such as .max", path);
  if (reached.values[0]->is_null()) lacks(path);
  return *reached.values[0];
}

/// Reads an expression, and with a summary computes it.
class Parser {
 public:
  Parser(std::string_view text, const Value* summary) : text_(text), summary_(summary) {}

  Value whole() {
    Value value = sum();
    skip_spaces();
    if (at_ < text_.size()) wrong("the end");
    return value;
  }

 private:
  [[noreturn]] void wrong(std::string_view expected) const {
    fail<InputError>("expected {} at character {} of {}", expected, at_ + 1, in_quotes(text_));
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  /// The next character, or 0 at the end.
  char next() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  template <class Term>
  Value chain(char one, char other, const Term& term) {
    Value left = term();
    while (next() == one || next() == other) {
      const char sign = text_[at_++];
      const Value right = term();
      left = combined(left, sign, right);
    }
    return left;
  }
  Value sum() {
    return chain('+', '-', [this] { return product(); });
  }
  Value product() {
    return chain('*', '/', [this] { return factor(); });
  }
  Value combined(const Value& left, char sign, const Value& right) const {
    if (summary_ == nullptr) return 0;
    if (!left.is_number() || !right.is_number()) fail<InputError>("{}: expected numbers around {}", text_, sign);
    const double a = left.get<double>();
    const double b = right.get<double>();
    switch (sign) {
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      default:
        return a / b;
    }
  }

  Value factor() {
    const char c = next();
    if (c == '(') {
      ++at_;
      Value value = sum();
      if (next() != ')') wrong("\")\"");
      ++at_;
      return value;
    }
    if (c == '\'') return quoted();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-') return number();
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) return path();
    wrong("a number, a path, 'text' or \"(\"");
  }
  Value quoted() {
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) wrong("a text that ends with '");
    Value value = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  Value number() {
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) wrong("a number");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    if (at_ == begin) wrong("a key");
    return text_.substr(begin, at_ - begin);
  }
  Value path() {
    const std::size_t begin = at_;
    Reached reached;
    if (summary_ != nullptr) reached.values = {summary_};
    const auto so_far = [&] { return text_.substr(begin, at_ - begin); };
    const ListReduction* reduction = nullptr;
    for (bool is_first = true;; is_first = false) {
      const std::string_view key = word();
      const auto found =
          std::find_if(reductions.begin(), reductions.end(), [&](const ListReduction& r) { return r.name == key; });
      // `steps.max` reduces a list, `step_seconds.max` is a key.
      const bool is_key = summary_ != nullptr && has_key(reached, key);
      if (!is_first && found != reductions.end() && !is_key) {
        reduction = &*found;
        break;
      }
      if (summary_ != nullptr) follow_key(reached, key, so_far());
      while (at_ < text_.size() && text_[at_] == '[') {
        const std::size_t end = text_.find(']', at_);
        if (end == std::string_view::npos) wrong("a selection that ends with ]");
        const std::string_view selector = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        if (summary_ != nullptr) select(reached, selector, so_far());
      }
      if (at_ >= text_.size() || text_[at_] != '.') break;
      ++at_;
    }
    if (summary_ == nullptr) return 0;
    return reduction == nullptr ? single(reached, so_far()) : reduced(std::move(reached), *reduction, so_far());
  }
  static bool has_key(Reached reached, std::string_view key) {
    spread_lists(reached);
    return !reached.values.empty() &&
           std::all_of(reached.values.begin(), reached.values.end(),
                       [&](const Value* value) { return value->is_object() && value->contains(key); });
  }

  std::string_view text_;
  const Value* summary_;
  std::size_t at_ = 0;
};

}  // namespace

void check_syntax(std::string_view expression) {
  (void)Parser(expression, nullptr).whole();
}

nlohmann::ordered_json evaluate(std::string_view expression, const nlohmann::ordered_json& summary) {
  return Parser(expression, &summary).whole();
}

}  // namespace heddle
