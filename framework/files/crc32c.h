// CRC-32C (Castagnoli) as in RFC 3720: the checksum of TensorBoard's records and of our checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace heddle {

/// The checksum of `bytes`. If they follow other bytes, `before` is the checksum of those.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
inline std::uint32_t crc32c(std::string_view text, std::uint32_t before = 0) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

}  // namespace heddle
