#include "experiments/results/appended_file.h"

#include <doctest/doctest.h>

#include "framework/error.h"
#include "tests/support/files/file_size_limit.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

TEST_CASE("lines that a full disk does not take are written once it has room, each once and whole") {
  const Scratch scratch;
  AppendedFile file(scratch / "lines");
  const auto content = [&] { return read_file(scratch / "lines", 100); };
  CHECK_FALSE(file.append("first\n"));
  {
    const FileSizeLimit limit(10);  // within the second line
    CHECK(file.append("second\n") == (scratch / "lines").string() + ": cannot be written: File too large");
    CHECK(content() == "first\nseco");
    CHECK_FALSE(file.append("third\n"));  // the reason is known
    CHECK(message_of<DiskError>([&] { file.flush(); }) ==
          (scratch / "lines").string() + ": cannot be written: File too large");
  }
  CHECK_FALSE(file.append("fourth\n"));
  CHECK(content() == "first\nsecond\nthird\nfourth\n");
  const FileSizeLimit again(10);
  CHECK(file.append("fifth\n") == (scratch / "lines").string() + ": cannot be written: File too large");
}

TEST_CASE("a full disk is a DiskError, and what cannot be a place for files an InputError") {
  AppendedFile full("/dev/full");
  CHECK(full.append("x") == "/dev/full: cannot be written: No space left on device");
  const Scratch scratch;
  write_file_atomically(scratch / "file", "");
  try {
    AppendedFile file(scratch / "file/lines");
    FAIL("it is open");
  } catch (const DiskError&) {
    FAIL("not the disk's fault");
  } catch (const InputError& error) {
    CHECK(error.what() == (scratch / "file").string() + ": cannot be created as a folder: Not a directory");
  }
}

TEST_CASE("a file that is given its beginning replaces the one that is there") {
  const Scratch scratch;
  write_file_atomically(scratch / "lines", "a longer text of an earlier run\n");
  AppendedFile file(scratch / "lines", "head\n");
  CHECK_FALSE(file.append("line\n"));
  CHECK(read_file(scratch / "lines", 100) == "head\nline\n");
}

TEST_CASE("a file whose first text a full disk does not take begins with it all the same, in a folder of its own") {
  const Scratch scratch;
  const std::filesystem::path path = scratch / "new/folder/lines";
  std::optional<AppendedFile> file;
  {
    const FileSizeLimit limit(2);
    file.emplace(path, "head\n");
    CHECK_FALSE(file->is_flushed());
    CHECK(file->append("line\n") == path.string() + ": cannot be written: File too large");
  }
  file->flush();
  CHECK(file->is_flushed());
  CHECK(read_file(path, 100) == "head\nline\n");
}

}  // namespace heddle::test
