// JSON that nests more deeply than code can recurse.
#include "framework/files/untrusted_json.h"

#include <string>

#include <doctest/doctest.h>

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

}  // namespace heddle::test
