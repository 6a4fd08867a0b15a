// What the fuzzer has found to reach different code (fuzz.cpp): tests/fuzz/corpus/FORMAT.zip has one input per member.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/files/zip_file.h"
#include "tests/fuzz/formats.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/scratch.h"

namespace heddle::test {

TEST_CASE("inputs that the fuzzer has found are read, or refused with the name of their file") {
  const Scratch scratch;
  const std::filesystem::path folder = scratch / "";
  for (const FuzzedFormat& format : fuzzed_formats()) {
    CAPTURE(format.name);
    const ZipFile corpus(source_folder() / "tests/fuzz/corpus" / (std::string(format.name) + ".zip"));
    std::size_t read = 0;
    for (const ZipFile::Member& member : corpus.members()) {
      CAPTURE(member.name);
      const std::vector<std::byte> bytes = corpus.read(member, 1 << 16);
      if (read_fuzzed(format, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, folder)) ++read;
    }
    CHECK(read > 0);
    if (format.name != "metrics") CHECK(read < corpus.members().size());  // whose damaged lines are left out
  }
}

}  // namespace heddle::test
