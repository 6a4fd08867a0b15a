// The tensors of another program's file of weights.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "framework/files/safetensors.h"

namespace heddle {

class WeightsSource {
 public:
  virtual ~WeightsSource() = default;
  /// What was found, in words.
  virtual std::string description() const = 0;
  virtual const std::vector<SafetensorsEntry>& entries() const = 0;
  /// The elements of entries()[index], row-major. InputError if the file is damaged.
  virtual std::vector<std::byte> read(std::size_t index) const = 0;
};

/// Opens a safetensors file, or a file of torch.save. `key` chooses a state dict of a file that has several; it is
/// empty if there is one. InputError says what is wrong with the file.
std::unique_ptr<WeightsSource> open_weights(const std::filesystem::path& path, const std::string& key);

}  // namespace heddle
