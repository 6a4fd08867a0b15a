// The text that reports the first difference between two experiments.
#include <array>

#include <doctest/doctest.h>

#include "experiments/config/first_change.h"

namespace heddle::test {

namespace {

std::string words(std::string_view before, std::string_view now, std::span<const std::string_view> except = {}) {
  const std::optional<Change> change = first_change(before, now, except);
  return change ? change->key + " was " + change->before + ", is " + change->now : "";
}

}  // namespace

TEST_CASE("the first value in which two experiments differ is named, with its values") {
  CHECK(words(R"({"a": 1, "b": {"c": [1, 2.5]}})", R"({"a": 1, "b": {"c": [1, 2.5]}})").empty());
  CHECK(words(R"({"a": 1, "b": {"c": true}})", R"({"a": 1, "b": {"c": false}})") == "b.c was true, is false");
  CHECK(words(R"({"a": [{"b": 1}, {"b": 2}]})", R"({"a": [{"b": 1}, {"b": 3}]})") == "a.1.b was 2, is 3");
  CHECK(words(R"({"a": [1]})", R"({"a": [1, 2]})") == "a was a list of 1, is a list of 2");
  CHECK(words(R"({"a": "x"})", R"({"b": 1})") == "b was nothing, is 1");
  CHECK(words(R"({"a": 1, "b": "x"})", R"({"a": 1})") == "b was \"x\", is nothing");
}

TEST_CASE("keys that may differ, and texts that cannot be read, do not count as a difference") {
  constexpr std::array<std::string_view, 1> except{"a"};
  CHECK(words(R"({"a": 1, "b": 2})", R"({"a": 3, "b": 2})", except).empty());
  CHECK(words(R"({"a": 1, "b": 2})", R"({"a": 3, "b": 4})", except) == "b was 2, is 4");
  for (const char* broken : {"", "{", "[1]", "7"}) CHECK(words(broken, R"({"a": 1})").empty());
}

}  // namespace heddle::test
