// Files that are read line by line.
#include "framework/files/lines.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "framework/files/atomic_file.h"
#include "tests/support/files/experiment_files.h"

namespace heddle::test::lines_test {
namespace {

struct Line {
  std::string text;
  bool is_whole = true;
  bool operator==(const Line&) const = default;
};

std::vector<Line> lines_of(const std::string& path, std::size_t limit = 1 << 20) {
  std::vector<Line> lines;
  for_each_line(path, limit, [&](std::string_view text, bool is_whole) {
    lines.push_back({std::string(text), is_whole});
  });
  return lines;
}

std::string written(const std::string& path, std::string_view text) {
  write_file_atomically(path, text);
  return path;
}

}  // namespace

TEST_CASE("files: lines are read without their newline, which the last one may lack") {
  Files files;
  CHECK(lines_of(written(files.path("empty"), "")).empty());
  CHECK(lines_of(written(files.path("whole"), "a\n\nbc\n")) == std::vector<Line>{{"a"}, {""}, {"bc"}});
  CHECK(lines_of(written(files.path("cut"), "a\nbc")) == std::vector<Line>{{"a"}, {"bc", false}});
}

TEST_CASE("files: lines of any length are read whole, up to a limit") {
  Files files;
  std::vector<Line> lines;
  std::vector<Line> limited;
  std::string text;
  for (const std::size_t size : {65535U, 0U, 65536U, 200'000U, 3U, 65534U}) {  // around the size of a piece
    lines.push_back({std::string(size, 'x')});
    text += lines.back().text + "\n";
    limited.push_back({lines.back().text.substr(0, 3), size <= 3});
  }
  const std::string path = written(files.path("long"), text);
  CHECK(lines_of(path) == lines);
  CHECK(lines_of(path, 3) == limited);
}

}  // namespace heddle::test::lines_test
