// A run whose files may not grow: the program's behaviour at the process's own limits.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include "tests/support/images/drawn_faces.h"
#include "tests/support/program/program.h"
#include "tests/support/program/shipped.h"
#include "tests/support/scratch.h"

namespace heddle::test {

TEST_CASE("a file that passes the limit on sizes is reported as one that cannot be written, and no part of it stays") {
  const Scratch scratch;
  const std::string folder = (scratch / "out").string();
  const std::string said = (scratch / "said").string();
  // 64 KiB; the checkpoint of the embedding's weights alone takes more.
  const int status = std::system(fmt::format("ulimit -f 128; '{}' run '{}' --out '{}' --set train.steps=1 >'{}' 2>&1",
                                             program(), experiment_file("quickstart"), folder, said)
                                     .c_str());
  std::ifstream file(said);
  const std::string error{std::istreambuf_iterator<char>(file), {}};
  CAPTURE(error);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 5);
  CHECK(error.find("the checkpoint after 1 step is lost: " + folder +
                   "/checkpoint/serial/step-000001/rank-0.safetensors: cannot be written: File too large; there is no "
                   "earlier one\n") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder + "/checkpoint/serial/step-000001"));
}

TEST_CASE("a .rec that passes the limit on sizes leaves no file behind") {
  const Scratch scratch;
  write_people(scratch / "faces", std::vector<int>(7, 100));
  std::filesystem::create_directory(scratch / "out");
  const std::string said = (scratch / "said").string();
  const int status = std::system(fmt::format("ulimit -f 128; '{}' data pack '{}' '{}' >'{}' 2>&1", program(),
                                             (scratch / "faces").string(), (scratch / "out/a.rec").string(), said)
                                     .c_str());
  const std::string error = read_file(said, 1 << 20);
  CAPTURE(error);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 5);
  CHECK(error == "heddle: " + (scratch / "out/a.rec").string() + ": cannot be written: File too large\n");
  CHECK(std::filesystem::is_empty(scratch / "out"));
}

}  // namespace heddle::test
