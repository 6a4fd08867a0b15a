// CRC-32C (Castagnoli), as RFC 3720 has it: the checksum of TensorBoard's records and of our checkpoints.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle {

/// Of `bytes`, or of what `before` is the checksum of with `bytes` behind it.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

}  // namespace heddle
