#include "framework/description/printable.h"

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("printable text has neither control characters nor bytes that are not UTF-8") {
  CHECK(printable("a\tb\x7F\n") == "a?b??");
  for (const char* character : {"\u00E9", "\u20AC", "\uD7FF", "\uE000", "\U0001F600", "\U0010FFFF"})
    CHECK(printable(character) == character);
  CHECK(printable("\xC2\x80") == "??");            // a control character of C1
  CHECK(printable("\xC0\xAF") == "??");            // overlong
  CHECK(printable("\xE0\x80\x80") == "???");       // overlong
  CHECK(printable("\xED\xA0\x80") == "???");       // a surrogate
  CHECK(printable("\xF0\x80\x80\x80") == "????");  // overlong
  CHECK(printable("\xF4\x90\x80\x80") == "????");  // above U+10FFFF
  CHECK(printable("\xE2\x82") == "??");            // cut off
}

TEST_CASE("printable lines keep their ends, and are printable") {
  CHECK(printable_lines("a\x1B[31m\nb\tc\n\nd") == "a?[31m\nb?c\n\nd");
  CHECK(printable_lines("\n") == "\n");
  CHECK(printable_lines("").empty());
}

TEST_CASE("a name as a line of a file is valid UTF-8, and gives the name again") {
  CHECK(escaped_line("a\xFC\n\\x41\u00E9") == "a\\xfc\\x0a\\\\x41\u00E9");
  for (const char* const name : {"M\xFCller", "M\xF6ller", "\\", "\\\\x41", "a\tb\x7F", "\u5c0f\u6cc9", "", "\\xfc"})
    CHECK(unescaped_line(escaped_line(name)) == name);
  CHECK(unescaped_line("C:\\faces\\x\\xq1") == "C:\\faces\\x\\xq1");  // written by others
}

TEST_CASE("valid UTF-8 keeps control characters and replaces other bytes") {
  CHECK(valid_utf8("a\tb\n\u20AC") == "a\tb\n\u20AC");
  CHECK(valid_utf8("a\xFFz") == "a\uFFFDz");
  CHECK(valid_utf8("\xED\xA0\x80").find('\xED') == std::string::npos);
}

}  // namespace heddle::test
