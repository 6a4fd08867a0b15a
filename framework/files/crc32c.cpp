#include "framework/files/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace heddle {

namespace {

using Table = std::array<std::uint32_t, 256>;

/// tables[n][b] is the effect of byte b on the checksum if n more bytes follow it, so that eight bytes are looked up at
/// once (Kounavis and Berry, "Novel table lookup-based algorithms for high-performance CRC generation", 2008).
constexpr std::array<Table, 8> tables = [] {
  constexpr std::uint32_t polynomial = 0x82F63B78;  // Castagnoli's, bits reversed
  std::array<Table, 8> all{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? polynomial : 0U);
    all[0][byte] = crc;
  }
  for (std::size_t n = 1; n < all.size(); ++n)
    for (std::size_t byte = 0; byte < 256; ++byte)
      all[n][byte] = (all[n - 1][byte] >> 8) ^ all[0][all[n - 1][byte] & 0xFFU];
  return all;
}();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static_assert(std::endian::native == std::endian::little, "the first byte of a word is its lowest");
  std::uint32_t crc = ~before;
#ifdef __SSE4_2__
  // The processor has an instruction for this polynomial.
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    crc = static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
  }
#endif
  for (; bytes.size() >= tables.size(); bytes = bytes.subspan(tables.size())) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < tables.size(); ++i) crc ^= tables[tables.size() - 1 - i][word >> (8 * i) & 0xFFU];
  }
  for (const std::byte byte : bytes) crc = tables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU] ^ (crc >> 8);
  return ~crc;
}

}  // namespace heddle
