// Runs whose memory the system limits.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include "framework/files/atomic_file.h"
#include "tests/support/program/program.h"
#include "tests/support/program/shipped.h"
#include "tests/support/scratch.h"

namespace heddle::test {

TEST_CASE("a run that may not take the memory that it needs ends with exit code 3 and an error, wherever that is") {
  const Scratch scratch;
  const std::string said = (scratch / "said").string();
  int without_memory = 0;
  // Which allocation is the first to fail changes with every few MiB, most of all where there is little more than the
  // program itself takes.
  std::vector<int> limits;
  for (int kibibytes = 440'000; kibibytes < 510'000; kibibytes += 5'000) limits.push_back(kibibytes);
  for (int kibibytes = 600'000; kibibytes < 1'500'000; kibibytes += 150'000) limits.push_back(kibibytes);
  for (const int kibibytes : limits) {
    CAPTURE(kibibytes);
    const int status =
        std::system(fmt::format("ulimit -v {}; '{}' run '{}' --out '{}' --set train.steps=1 "
                                "--set train.save=false --set threads=2 >'{}' 2>&1",
                                kibibytes, program(), experiment_file("quickstart"), (scratch / "out").string(), said)
                        .c_str());
    const std::string error = read_file(said, 1 << 20);
    CAPTURE(error);
    REQUIRE(WIFEXITED(status));
    const int code = WEXITSTATUS(status);
    CHECK((code == 0 || code == 3));
    if (code != 3) continue;
    ++without_memory;
    CHECK(error.find("out of memory") != std::string::npos);
  }
  CHECK(without_memory > 0);
}

TEST_CASE("a run whose threads libgomp cannot start ends with exit code 3 and an error") {
  const Scratch scratch;
  const std::string said = (scratch / "said").string();
  // More than the address space has: only libgomp's threads have such stacks.
  const int status =
      std::system(fmt::format("OMP_STACKSIZE=200000G '{}' run '{}' --out '{}' --set threads=2 >'{}' 2>&1", program(),
                              experiment_file("quickstart"), (scratch / "out").string(), said)
                      .c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(read_file(said, 1 << 20)
            .find("heddle: a library has ended the process, perhaps because the system cannot start the "
                  "computing threads: a limit (ulimit -v, ulimit -u) or OMP_STACKSIZE\n") != std::string::npos);
}

}  // namespace heddle::test
