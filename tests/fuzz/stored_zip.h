// Zip files with right checksums, for tests of what is in their members.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::test {

struct StoredMember {
  std::string_view name;
  std::string_view bytes;
};

/// A zip file whose members are not compressed.
std::string stored_zip(const std::vector<StoredMember>& members);

}  // namespace heddle::test
