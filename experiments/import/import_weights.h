// Converts another program's file of weights into a safetensors file for `model.weights`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace heddle {

struct ImportOptions {
  /// The state dict of a file that has several.
  std::string key{};
  /// Only tensors whose names begin with this prefix are kept, without it; if it is empty, all are. After that, the
  /// prefixes that wrappers of PyTorch add are removed if all names begin with them.
  std::string prefix{};
};

struct ImportedWeights {
  std::string description;              // of the file
  std::vector<std::string> prefixes{};  // that were removed from the names, in this order
  std::int64_t tensors = 0;
  std::int64_t left_out = 0;  // those without the wanted prefix
  std::uint64_t bytes = 0;
};

/// InputError names the file and the tensor: a damaged file, an element that is not finite, a name that two tensors
/// have. Nothing is written then.
ImportedWeights import_weights(const std::filesystem::path& from, const std::filesystem::path& to,
                               const ImportOptions& options = {});

}  // namespace heddle
