// libFuzzer with the readers of formats.h: `tests/fuzz/fuzz.py` runs it. HEDDLE_FUZZ_FORMAT is the name of the format.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "tests/fuzz/formats.h"

namespace {

const heddle::test::FuzzedFormat* format = nullptr;
std::filesystem::path folder;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const name = std::getenv("HEDDLE_FUZZ_FORMAT");
  for (const heddle::test::FuzzedFormat& known : heddle::test::fuzzed_formats())
    if (name != nullptr && known.name == name) format = &known;
  if (format == nullptr) {
    std::cerr << "HEDDLE_FUZZ_FORMAT: expected one of";
    for (const heddle::test::FuzzedFormat& known : heddle::test::fuzzed_formats()) std::cerr << " " << known.name;
    std::cerr << "\n";
    std::exit(2);
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "heddle_fuzz_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) std::exit(2);
  folder = pattern;
  return 0;
}

// An exception that escapes ends the fuzzer, which keeps the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  (void)heddle::test::read_fuzzed(*format, {reinterpret_cast<const char*>(bytes), count}, folder);
  return 0;
}
