#include "tests/support/compare/close_to.h"

#include <limits>

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("numbers are close to each other relative to their size, and infinite ones to themselves only") {
  for (const double size : {1e-9, 1.0, 1e9})
    for (const double sign : {-1.0, 1.0}) {
      const double x = sign * size;
      CHECK(x == close_to(x));
      CHECK(1.09 * x == close_to(x).epsilon(0.1));
      CHECK(0.91 * x == close_to(x).epsilon(0.1));
      CHECK(1.2 * x != close_to(x).epsilon(0.1));
      CHECK(0.8 * x != close_to(x).epsilon(0.1));
      CHECK(x != close_to(0));
      CHECK(-x != close_to(x).epsilon(0.1));
    }
  CHECK(0.0 == close_to(0));
  CHECK(5.1 <= close_to(5).epsilon(0.1));
  CHECK_FALSE(6.0 <= close_to(5).epsilon(0.1));
  CHECK(4.9 >= close_to(5).epsilon(0.1));
  CHECK_FALSE(4.0 >= close_to(5).epsilon(0.1));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(infinity == close_to(infinity));
  CHECK(infinity != close_to(-infinity));
  CHECK(infinity != close_to(5));
  CHECK(5.0 != close_to(infinity));
  CHECK(nan != close_to(nan));
  CHECK(nan != close_to(5));
  CHECK(5.0 != close_to(nan));
}

}  // namespace heddle::test
