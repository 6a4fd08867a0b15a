#include "framework/description/wildcard.h"

#include <string>

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("a * of a pattern stands for any text, also for none") {
  CHECK(matches("layer1.conv", "layer1.conv"));
  CHECK_FALSE(matches("layer1.conv", "layer1.conv2"));
  CHECK(matches("*", ""));
  CHECK(matches("layer4.*.conv2", "layer4.0.1.conv2"));
  CHECK_FALSE(matches("layer4.*.conv2", "layer4.conv2"));
  CHECK(matches("a*b*", "a-b-ab"));
  CHECK_FALSE(matches("a*b", "a-b-a"));
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
}

TEST_CASE("a pattern of many * is answered in an instant") {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  CHECK_FALSE(matches(pattern, std::string(2000, 'a') + "b"));
}

}  // namespace heddle::test
