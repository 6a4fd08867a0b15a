#include "framework/files/atomic_file.h"

#include <doctest/doctest.h>

#include "tests/support/scratch.h"

using namespace heddle;

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
