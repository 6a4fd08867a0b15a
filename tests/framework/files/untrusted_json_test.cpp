// JSON that nests more deeply than code can recurse.
#include "framework/files/untrusted_json.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace heddle::test {

TEST_CASE("the levels of a JSON text are counted outside of its strings") {
  const std::string open(max_json_levels, '[');
  CHECK(!nests_too_deeply(open));
  CHECK(nests_too_deeply(open + "{"));
  CHECK(!nests_too_deeply(open + "]["));
  CHECK(!nests_too_deeply("]]" + open));
  CHECK(!nests_too_deeply(open + R"("[\"[\\")"));
  CHECK(nests_too_deeply(open + R"("\\"[)"));
  CHECK(nests_too_deeply(R"({"a": ")" + open + R"("})" + open + "{"));
  CHECK(!nests_too_deeply(open + R"("[)"));
  CHECK(!nests_too_deeply(open + R"("\)"));
}

TEST_CASE("counts of a JSON text are the integers from 0 to 2^53, however they are written") {
  const auto count = [](const char* text) { return count_of(nlohmann::json::parse(text)); };
  CHECK(count("0") == 0);
  CHECK(count("-0.0") == 0);
  CHECK(count("7.0") == 7);
  CHECK(count("9007199254740992") == std::int64_t{1} << 53);
  for (const char* const other :
       {"-1", "0.5", "9007199254740994", "18446744073709551615", "1.11111e+69", "null", "\"1\"", "[1]", "true"}) {
    CAPTURE(other);
    CHECK_FALSE(count(other));
  }
}

}  // namespace heddle::test
