#include "framework/files/atomic_file.h"

#include <csignal>
#include <cstdlib>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/error.h"
#include "tests/support/files/file_size_limit.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

TEST_CASE("what an atomic file is given for an earlier place replaces only that, and commits with the rest") {
  const Scratch folder;
  AtomicFile file(folder / "a");
  file.write("0123456789");
  const std::string_view text = "ab";
  file.write_at(3, std::as_bytes(std::span(text)));
  file.write("end");
  file.finish();
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
  file.commit();
  CHECK(read_file(folder / "a", 100) == "012ab56789end");
  CHECK(folder.files() == 1);
}

TEST_CASE("a process that is killed while it writes an atomic file leaves nothing of it") {
  const Scratch folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    AtomicFile file(folder / "a");
    file.write(std::string(std::size_t{1} << 20, 'x'));
    file.finish();
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(folder.files() == 0);
}

TEST_CASE("a write that fails names the target, and leaves nothing") {
  const Scratch folder;
  std::string error;
  {
    const test::FileSizeLimit limit(4096);
    error = message_of<InputError>([&] { write_file_atomically(folder / "a", std::string(8192, 'x')); });
  }
  CHECK(error == (folder / "a").string() + ": cannot be written: File too large");
  CHECK(folder.files() == 0);
}

}  // namespace heddle::test
