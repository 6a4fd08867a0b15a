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

#ifdef __SSE4_2__
/// The instruction takes three cycles, and the processor begins one per cycle: three blocks are read at once.
constexpr std::size_t block_bytes = 4096;
static_assert(std::has_single_bit(block_bytes));

/// What becomes of each bit of a checksum when zeros follow.
using Matrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t image_of(const Matrix& matrix, std::uint32_t bits) {
  std::uint32_t sum = 0;
  for (std::size_t bit = 0; bit < matrix.size(); ++bit)
    if ((bits >> bit & 1U) != 0) sum ^= matrix[bit];
  return sum;
}

/// after_block[n][b] is the effect of byte n of a checksum, if it is b, when `block_bytes` zeros follow.
constexpr std::array<Table, 4> after_block = [] {
  Matrix zeros{};  // first one byte of them
  for (std::size_t bit = 0; bit < zeros.size(); ++bit) {
    const std::uint32_t one = std::uint32_t{1} << bit;
    zeros[bit] = (one >> 8) ^ tables[0][one & 0xFFU];
  }
  for (std::size_t bytes = 1; bytes < block_bytes; bytes *= 2) {
    Matrix twice{};
    for (std::size_t bit = 0; bit < zeros.size(); ++bit) twice[bit] = image_of(zeros, zeros[bit]);
    zeros = twice;
  }
  std::array<Table, 4> all{};
  for (std::uint32_t n = 0; n < all.size(); ++n)
    for (std::uint32_t byte = 0; byte < 256; ++byte) all[n][byte] = image_of(zeros, byte << (8 * n));
  return all;
}();

/// The checksum of a block that follows another one, from those of both.
std::uint32_t joined(std::uint32_t before, std::uint32_t block) {
  for (std::size_t n = 0; n < after_block.size(); ++n) block ^= after_block[n][before >> (8 * n) & 0xFFU];
  return block;
}
#endif

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static_assert(std::endian::native == std::endian::little, "the first byte of a word is its lowest");
  std::uint32_t crc = ~before;
#ifdef __SSE4_2__
  // The processor has an instruction for this polynomial.
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  for (; bytes.size() >= 3 * block_bytes; bytes = bytes.subspan(3 * block_bytes)) {
    std::uint64_t first = crc;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const std::byte* word = bytes.data(); word != bytes.data() + block_bytes; word += word_bytes) {
      first = _mm_crc32_u64(first, word_at(word));
      second = _mm_crc32_u64(second, word_at(word + block_bytes));
      third = _mm_crc32_u64(third, word_at(word + 2 * block_bytes));
    }
    crc = joined(joined(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)),
                 static_cast<std::uint32_t>(third));
  }
  for (; bytes.size() >= word_bytes; bytes = bytes.subspan(word_bytes))
    crc = static_cast<std::uint32_t>(_mm_crc32_u64(crc, word_at(bytes.data())));
#endif
  for (; bytes.size() >= tables.size(); bytes = bytes.subspan(tables.size())) {
    std::uint64_t word = word_at(bytes.data()) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < tables.size(); ++i) crc ^= tables[tables.size() - 1 - i][word >> (8 * i) & 0xFFU];
  }
  for (const std::byte byte : bytes) crc = tables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU] ^ (crc >> 8);
  return ~crc;
}

}  // namespace heddle
