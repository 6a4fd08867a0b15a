// What a user is told of two experiments that should be one.
#include <array>

#include <doctest/doctest.h>

#include "experiments/config/first_change.h"

namespace heddle {

TEST_CASE("the first value that two experiments differ in is named, with what it was") {
  CHECK(first_change(R"({"a": 1, "b": {"c": [1, 2.5]}})", R"({"a": 1, "b": {"c": [1, 2.5]}})").empty());
  CHECK(first_change(R"({"a": 1, "b": {"c": true}})", R"({"a": 1, "b": {"c": false}})") == "b.c was true, is false");
  CHECK(first_change(R"({"a": [{"b": 1}, {"b": 2}]})", R"({"a": [{"b": 1}, {"b": 3}]})") == "a.1.b was 2, is 3");
  CHECK(first_change(R"({"a": [1]})", R"({"a": [1, 2]})") == "a was a list of 1, is a list of 2");
  CHECK(first_change(R"({"a": "x"})", R"({"b": 1})") == "b was nothing, is 1");
  CHECK(first_change(R"({"a": 1, "b": "x"})", R"({"a": 1})") == "b was \"x\", is nothing");
}

TEST_CASE("what need not be alike, or cannot be read, is no difference") {
  constexpr std::array<std::string_view, 1> except{"a"};
  CHECK(first_change(R"({"a": 1, "b": 2})", R"({"a": 3, "b": 2})", except).empty());
  CHECK(first_change(R"({"a": 1, "b": 2})", R"({"a": 3, "b": 4})", except) == "b was 2, is 4");
  for (const char* broken : {"", "{", "[1]", "7"}) CHECK(first_change(broken, R"({"a": 1})").empty());
}

}  // namespace heddle
