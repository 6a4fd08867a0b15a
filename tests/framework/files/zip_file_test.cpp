// Members of zip files, read up to a limit.
#include "framework/files/zip_file.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/files/source_folder.h"
#include "tests/support/message.h"

namespace heddle::test::zip_file_test {

TEST_CASE("a deflated member that is larger than the limit is refused before it is unpacked") {
  const ZipFile file(test::source_folder() / "tests/experiments/import/files/oversized.pt");
  const ZipFile::Member* const member = file.member("oversized/data/0");
  REQUIRE(member != nullptr);
  REQUIRE(member->is_deflated);
  CHECK(member->packed < 100);
  CHECK(file.read(*member, 4096) == std::vector<std::byte>(4096));
  CHECK(message_of<InputError>([&] { (void)file.read(*member, 4095); }) ==
        fmt::format("{}: member \"oversized/data/0\" has 4096 bytes: expected at most 4095", file.path().string()));
}

}  // namespace heddle::test::zip_file_test
