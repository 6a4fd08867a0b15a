// Readers of formats that Heddle does not trust, each as a function of arbitrary bytes. fuzz.cpp searches for bytes
// that reach new code, and corpus_test.cpp reads those that it has found.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace heddle::test {

struct FuzzedFormat {
  std::string_view name;
  /// Writes the bytes to files in `folder` and reads these. An InputError is thrown if they are refused. Where a format
  /// has several files, the line `--` is between them.
  void (*read)(std::string_view bytes, const std::filesystem::path& folder);
};

/// All formats, sorted by name.
std::span<const FuzzedFormat> fuzzed_formats();

/// Reads the bytes; returns whether they were not refused. Error if the message of a refusal does not begin with a file
/// in `folder`.
bool read_fuzzed(const FuzzedFormat& format, std::string_view bytes, const std::filesystem::path& folder);

}  // namespace heddle::test
