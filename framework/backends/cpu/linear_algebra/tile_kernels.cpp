#include "framework/backends/cpu/linear_algebra/tile_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEDDLE_TILES [[gnu::target("avx512f,avx512bw,amx-tile,amx-bf16")]]

namespace heddle::cpu {

namespace {

constexpr int parts = 3;
constexpr std::int64_t tile_rows = 16;
constexpr std::int64_t tile_vectors = 16;                    // of 64 bytes
constexpr std::int64_t part_vectors = 2 * tile_vectors;      // the two tiles of a panel
constexpr std::int64_t step_vectors = parts * part_vectors;  // of tile_terms terms of a panel

/// Eight tiles of 16 rows of 64 bytes; see Intel's manual of LDTILECFG.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::array<std::uint8_t, 15> reserved{};
  std::array<std::uint16_t, 16> row_bytes{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> rows{16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfiguration configuration{};
static_assert(panel_bytes(tile_terms) == step_vectors * 64);

// Vectors of 64 bytes; a pair is two bf16.
using Floats = float __attribute__((vector_size(64)));
using Pairs = std::uint32_t __attribute__((vector_size(64)));

HEDDLE_TILES inline Floats load(const float* from) {
  Floats x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

/// The nearest bf16, as an f32; of two, the one farther from 0. A NaN with all bits set may become 0; its rest stays a
/// NaN.
HEDDLE_TILES inline Pairs nearest_bf16(const Floats& x) {
  return (reinterpret_cast<Pairs>(x) + 0x8000U) & 0xffff0000U;
}

HEDDLE_TILES inline Pairs truncated(const Floats& x) {
  return reinterpret_cast<Pairs>(x) & 0xffff0000U;
}

/// Pairs of an element of a and one of b, whose elements are bf16 written as f32.
HEDDLE_TILES inline Pairs in_pairs(const Pairs& a, const Pairs& b) {
  return (a >> 16) | b;
}

// The shuffles of a transposition, each of two vectors. The first four work within lanes of 16 bytes.
HEDDLE_TILES inline Floats low_elements(const Floats& a, const Floats& b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
HEDDLE_TILES inline Floats high_elements(const Floats& a, const Floats& b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
HEDDLE_TILES inline Floats low_halves(const Floats& a, const Floats& b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
HEDDLE_TILES inline Floats high_halves(const Floats& a, const Floats& b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
HEDDLE_TILES inline Floats even_lanes(const Floats& a, const Floats& b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
HEDDLE_TILES inline Floats odd_lanes(const Floats& a, const Floats& b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

/// Transposes 16 x 16 elements: first blocks of 4 x 4, then the lanes that hold their rows.
HEDDLE_TILES inline void transpose(Floats* rows) {
  Floats t[16];
  for (int i = 0; i < 16; i += 4) {
    const Floats low = low_elements(rows[i], rows[i + 1]);
    const Floats high = high_elements(rows[i], rows[i + 1]);
    const Floats low2 = low_elements(rows[i + 2], rows[i + 3]);
    const Floats high2 = high_elements(rows[i + 2], rows[i + 3]);
    t[i] = low_halves(low, low2);
    t[i + 1] = high_halves(low, low2);
    t[i + 2] = low_halves(high, high2);
    t[i + 3] = high_halves(high, high2);
  }
  for (int j = 0; j < 4; ++j) {
    const Floats even = even_lanes(t[j], t[j + 4]);
    const Floats odd = odd_lanes(t[j], t[j + 4]);
    const Floats even2 = even_lanes(t[j + 8], t[j + 12]);
    const Floats odd2 = odd_lanes(t[j + 8], t[j + 12]);
    rows[j] = even_lanes(even, even2);
    rows[j + 4] = even_lanes(odd, odd2);
    rows[j + 8] = odd_lanes(even, even2);
    rows[j + 12] = odd_lanes(odd, odd2);
  }
}

/// Packs a tile of each part from lines in memory: 16 rows of 32 terms each if `by_rows`, else 32 terms of 16 rows
/// each. A vector of a left tile has the pairs of one row, and one of a right tile a pair of each column. The terms i
/// and i + 16 of a tile are a pair, on both sides: that takes no shuffles of halves.
template <bool by_rows, OperandSide side>
HEDDLE_TILES inline void pack_tile(const float* from, std::int64_t stride, Pairs* to) {
  constexpr std::int64_t half = tile_terms / 2;
  Floats lines[tile_terms];
#pragma GCC unroll 32
  for (std::int64_t i = 0; i < tile_terms; ++i)
    lines[i] = load(by_rows ? from + i % half * stride + i / half * half : from + i * stride);
  if (by_rows != (side == OperandSide::left)) {
    transpose(lines);
    transpose(lines + half);
  }
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < half; ++i) {
    Floats a = lines[i];
    Floats b = lines[i + half];
#pragma GCC unroll 3
    for (int part = 0; part < parts; ++part) {
      // The last parts have no more digits, and may be NaN.
      const Pairs near_a = part + 1 < parts ? nearest_bf16(a) : truncated(a);
      const Pairs near_b = part + 1 < parts ? nearest_bf16(b) : truncated(b);
      to[part * part_vectors + i] = in_pairs(near_a, near_b);
      a -= reinterpret_cast<Floats>(near_a);
      b -= reinterpret_cast<Floats>(near_b);
    }
  }
}

/// The same at an edge, where lines are shorter or fewer.
template <bool by_rows, OperandSide side>
HEDDLE_TILES inline void pack_part_of_tile(const float* from, std::int64_t stride, std::int64_t rows,
                                           std::int64_t terms, Pairs* to) {
  constexpr std::int64_t length = by_rows ? tile_terms : tile_rows;
  std::array<float, tile_rows * tile_terms> whole{};
  const std::int64_t lines = by_rows ? rows : terms;
  for (std::int64_t line = 0; line < lines; ++line)
    std::copy_n(from + line * stride, std::max<std::int64_t>(by_rows ? terms : rows, 0), whole.data() + line * length);
  pack_tile<by_rows, side>(whole.data(), length, to);
}

template <bool by_rows, OperandSide side>
HEDDLE_TILES void pack(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t k, Pairs* to) {
  for (std::int64_t term = 0; term < k; term += tile_terms, to += step_vectors)
    for (std::int64_t tile = 0; tile < 2; ++tile) {
      const std::int64_t row = tile * tile_rows;
      const float* const at = by_rows ? from + row * stride + term : from + term * stride + row;
      if (rows - row >= tile_rows && k - term >= tile_terms)
        pack_tile<by_rows, side>(at, stride, to + tile * tile_vectors);
      else
        pack_part_of_tile<by_rows, side>(at, stride, std::min(tile_rows, rows - row), std::min(tile_terms, k - term),
                                         to + tile * tile_vectors);
    }
}

/// Fetches the lines of the next panel that belong to this step of k.
inline void fetch_next(const Prefetched& next, std::int64_t step) {
  if (next.operand.elements == nullptr) return;
  const bool by_rows = next.operand.k_stride == 1;
  const std::int64_t stride = by_rows ? next.operand.across_stride : next.operand.k_stride;
  const float* const block = next.operand.elements + step * tile_terms * next.operand.k_stride;
  constexpr std::int64_t lines = 2 * tile_terms;  // 32 rows of 128 bytes either way
  for (std::int64_t line = lines * next.share / next.shares; line < lines * (next.share + 1) / next.shares; ++line)
    __builtin_prefetch(block + line / 2 * stride + line % 2 * 16, 0, 2);
}

// g++ does not apply the attribute to constructors.
HEDDLE_TILES void configure_tiles(std::byte* before) {
  _tile_storeconfig(before);
  _tile_loadconfig(&configuration);
}
HEDDLE_TILES void restore_tiles(const std::byte* before) {
  if (before[0] == std::byte{0})
    _tile_release();
  else
    _tile_loadconfig(before);
}

}  // namespace

void pack_panel(const TileOperand& operand, OperandSide side, std::int64_t first, std::int64_t first_k, std::int64_t k,
                std::byte* panel) {
  const float* const from = operand.elements + first * operand.across_stride + first_k * operand.k_stride;
  const std::int64_t rows = operand.across - first;
  const bool by_rows = operand.k_stride == 1;
  const std::int64_t stride = by_rows ? operand.across_stride : operand.k_stride;
  auto* const to = reinterpret_cast<Pairs*>(panel);
  if (side == OperandSide::left)
    by_rows ? pack<true, OperandSide::left>(from, stride, rows, k, to)
            : pack<false, OperandSide::left>(from, stride, rows, k, to);
  else
    by_rows ? pack<true, OperandSide::right>(from, stride, rows, k, to)
            : pack<false, OperandSide::right>(from, stride, rows, k, to);
}

TileScope::TileScope() {
  configure_tiles(before_.data());
}

TileScope::~TileScope() {
  restore_tiles(before_.data());
}

// Tiles 0 to 3 are the result, 4 and 5 the left panel's, 6 and 7 the right one's.
#define HEDDLE_LOAD_LEFT(part)                         \
  _tile_loadd(4, left_step + (part)*part_vectors, 64); \
  _tile_loadd(5, left_step + (part)*part_vectors + tile_vectors, 64)
#define HEDDLE_LOAD_RIGHT(part)                         \
  _tile_loadd(6, right_step + (part)*part_vectors, 64); \
  _tile_loadd(7, right_step + (part)*part_vectors + tile_vectors, 64)
#define HEDDLE_MULTIPLY    \
  _tile_dpbf16ps(0, 4, 6); \
  _tile_dpbf16ps(1, 4, 7); \
  _tile_dpbf16ps(2, 5, 6); \
  _tile_dpbf16ps(3, 5, 7)

HEDDLE_TILES void multiply_panels(const std::byte* left, const std::byte* right, std::int64_t k, float* c,
                                  std::int64_t stride, bool adds, const Prefetched& next) {
  asm volatile("" ::: "memory");  // g++ does not know that loads of tiles read memory
  const auto* left_step = reinterpret_cast<const Pairs*>(left);
  const auto* right_step = reinterpret_cast<const Pairs*>(right);
  float* const lower = c + tile_rows * stride;
  const std::int64_t bytes = stride * static_cast<std::int64_t>(sizeof(float));
  if (adds) {
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + tile_rows, bytes);
    _tile_loadd(2, lower, bytes);
    _tile_loadd(3, lower + tile_rows, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const std::int64_t steps = (k + tile_terms - 1) / tile_terms;
  for (std::int64_t step = 0; step < steps; ++step, left_step += step_vectors, right_step += step_vectors) {
    fetch_next(next, step);
    HEDDLE_LOAD_LEFT(2);
    HEDDLE_LOAD_RIGHT(0);
    HEDDLE_MULTIPLY;
    HEDDLE_LOAD_LEFT(1);
    HEDDLE_MULTIPLY;
    HEDDLE_LOAD_RIGHT(1);
    HEDDLE_MULTIPLY;
    HEDDLE_LOAD_LEFT(0);
    HEDDLE_MULTIPLY;
    HEDDLE_LOAD_RIGHT(2);
    HEDDLE_MULTIPLY;
    HEDDLE_LOAD_RIGHT(0);
    HEDDLE_MULTIPLY;
  }
  _tile_stored(0, c, bytes);
  _tile_stored(1, c + tile_rows, bytes);
  _tile_stored(2, lower, bytes);
  _tile_stored(3, lower + tile_rows, bytes);
}

bool request_tiles() {
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, since Linux 5.16
  constexpr long tile_data = 18;               // the state of AMX, in Intel's numbers
  static const bool is_granted = ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return is_granted;
}

}  // namespace heddle::cpu

#undef HEDDLE_TILES
#undef HEDDLE_LOAD_LEFT
#undef HEDDLE_LOAD_RIGHT
#undef HEDDLE_MULTIPLY
