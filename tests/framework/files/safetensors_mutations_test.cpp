#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/files/safetensors.h"
#include "tests/support/files/mutations.h"
#include "tests/support/scratch.h"

namespace heddle::test {

using namespace std::string_literals;

TEST_CASE("safetensors: mutated files are read or refused with their name") {
  const Scratch scratch;
  const std::filesystem::path path = scratch / "a";
  {
    SafetensorsWriter writer(path,
                             {{"conv1.weight", DType::f32, Shape{2, 3}},
                              {"step", DType::i64, Shape{}},
                              {"empty", DType::f16, Shape{0, 5}},
                              {"\xC3\xA9\"\n", DType::u8, Shape{3}}},
                             {{"format", "heddle"}});
    writer.write(std::vector<std::byte>(24 + 8 + 3));
    writer.commit();
  }
  const std::string whole = read_file(path, 1 << 20);
  check_mutations(4000, 0.5, path.string() + ": ", [&](RandomStream& draws) {
    std::string text = whole;
    if (draws.below(4) == 0) {
      text = mutated(text, "\"{}[],:0129-eE \\\xff\0n"s, draws);
    } else {  // the header alone, behind its right length
      const std::uint64_t data = 35;
      const std::string header = mutated(whole.substr(8, whole.size() - 8 - data), "\"{}[],:0129-eE \\\xff\0n"s, draws);
      const std::uint64_t length = header.size();
      std::memcpy(text.data(), &length, sizeof length);
      text.replace(8, whole.size() - 8 - data, header);
    }
    rewrite(path, text);
    const SafetensorsReader reader(path);
    for (std::size_t i = 0; i < reader.entries().size(); ++i) {
      std::vector<std::byte> bytes(reader.entries()[i].bytes());
      reader.read(i, bytes);
    }
  });
}

}  // namespace heddle::test
