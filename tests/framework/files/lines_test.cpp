// Files that are read line by line.
#include "framework/files/lines.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "tests/support/files/experiment_files.h"

namespace heddle::test::lines_test {
namespace {

std::vector<std::string> lines_of(const std::string& path, std::size_t limit = 1 << 20) {
  std::vector<std::string> lines;
  for_each_line(path, limit, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

std::string written(const std::string& path, std::string_view text) {
  write_file_atomically(path, text);
  return path;
}

}  // namespace

TEST_CASE("files: lines have their newline, which the last one may lack") {
  Files files;
  CHECK(lines_of(written(files.path("empty"), "")).empty());
  CHECK(lines_of(written(files.path("whole"), "a\n\nbc\n")) == std::vector<std::string>{"a\n", "\n", "bc\n"});
  CHECK(lines_of(written(files.path("cut"), "a\nbc")) == std::vector<std::string>{"a\n", "bc"});
}

TEST_CASE("files: lines of any length are read whole, up to a limit") {
  Files files;
  std::vector<std::string> lines;
  std::string text;
  for (const int size : {65535, 0, 65536, 200'000, 3, 65534}) {  // around the size of the pieces that are read
    lines.push_back(std::string(static_cast<std::size_t>(size), 'x') + "\n");
    text += lines.back();
  }
  const std::string path = written(files.path("long"), text);
  CHECK(lines_of(path) == lines);
  CHECK_THROWS_WITH_AS(lines_of(path, 100'000), (path + ": has a line of more than 100000 bytes").c_str(), InputError);
}

}  // namespace heddle::test::lines_test
