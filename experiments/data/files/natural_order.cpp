#include "experiments/data/files/natural_order.h"

#include <algorithm>
#include <cstddef>

namespace heddle {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Removes the run of digits at the front of `text` and returns it without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (is_digit(rest_a.front()) && is_digit(rest_b.front())) {
      const std::string_view number_a = take_number(rest_a);
      const std::string_view number_b = take_number(rest_b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
    } else {
      if (rest_a.front() != rest_b.front())
        return static_cast<unsigned char>(rest_a.front()) < static_cast<unsigned char>(rest_b.front());
      rest_a.remove_prefix(1);
      rest_b.remove_prefix(1);
    }
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;  // "1" and "01" are equal numbers but different names
}

}  // namespace heddle
