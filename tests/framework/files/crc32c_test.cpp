#include "framework/files/crc32c.h"

#include <string>

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("crc32c: the values of RFC 3720 and of the usual check, also in pieces of any size") {
  CHECK(crc32c(std::string("123456789")) == 0xE3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  CHECK(crc32c(std::string()) == 0);
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37);
  for (std::size_t first = 0; first <= text.size(); ++first)
    CHECK(crc32c(text.substr(first), crc32c(text.substr(0, first))) == crc32c(text));
}

TEST_CASE("crc32c: the checksum of a long text is that of its bytes, one after the other") {
  std::string text;
  std::uint32_t bytewise = 0;
  for (std::uint32_t i = 0; i < 40'000; ++i) {
    const std::string next(1, static_cast<char>(i * i >> 7));
    text += next;
    bytewise = crc32c(next, bytewise);
    if (i % 4099 == 0 || i % 12'288 > 12'280) CHECK(crc32c(text) == bytewise);
  }
}

}  // namespace heddle::test
