// Files that are read line by line.
#include "framework/files/line_reader.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "framework/files/atomic_file.h"
#include "tests/support/files/experiment_files.h"

namespace heddle::test::line_reader_test {
namespace {

struct Line {
  std::string text;
  bool is_whole = true;
  bool operator==(const Line&) const = default;
};

std::vector<Line> lines_of(const std::string& path, std::size_t limit = 1 << 22) {
  std::vector<Line> lines;
  for (LineReader reader(path, limit); reader.next();) lines.push_back({std::string(reader.line()), reader.is_whole()});
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
  for (const std::size_t size : {1048575U, 0U, 1048576U, 3'000'000U, 3U, 1048574U}) {  // around the size of a piece
    lines.push_back({std::string(size, 'x')});
    text += lines.back().text + "\n";
    limited.push_back({lines.back().text.substr(0, 3), size <= 3});
  }
  const std::string path = written(files.path("long"), text);
  CHECK(lines_of(path) == lines);
  CHECK(lines_of(path, 3) == limited);
  CHECK(lines_of(written(files.path("cut"), "abcd"), 3) == std::vector<Line>{{"abc", false}});
}

}  // namespace heddle::test::line_reader_test
