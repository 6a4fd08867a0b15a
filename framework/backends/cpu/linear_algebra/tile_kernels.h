// What AMX multiplies: tiles of 16 rows and 16 columns, in bf16 with sums in f32. An f32 is the sum of three bf16 here:
// the nearest one, the one that is nearest to the rest, and the rest of that. Of the nine products of two such sums,
// the six largest are added up; the others are together at most about 2^-24 of the product, by which f32 would round
// it. An element that is not finite, or above 3.389e38, makes its results NaN or infinite. Parts and products below
// 2^-126 count as 0: elements below 2^-110 have fewer digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace heddle::cpu {

/// Rows of the left operand, or columns of the right one, that are packed and multiplied together: two tiles.
inline constexpr std::int64_t panel_size = 32;
/// Terms of k in one tile.
inline constexpr std::int64_t tile_terms = 32;
/// Bytes of a packed panel with k terms: three bf16 for each element.
constexpr std::int64_t panel_bytes(std::int64_t k) {
  return 3 * 2 * panel_size * ((k + tile_terms - 1) / tile_terms * tile_terms);
}

/// An f32 operand in memory. `across` runs over the rows of a left operand and the columns of a right one, and k over
/// the terms of a sum. One of both strides is 1.
struct TileOperand {
  const float* elements = nullptr;
  std::int64_t across = 0;
  std::int64_t across_stride = 0;
  std::int64_t k_stride = 0;
};

enum class OperandSide { left, right };

/// Packs the elements from `first` and `first_k`, as many as there are, at most a panel of k terms; the rest is 0.
/// `panel` is aligned to 64 bytes.
void pack_panel(const TileOperand& operand, OperandSide side, std::int64_t first, std::int64_t first_k, std::int64_t k,
                std::byte* panel);

/// What a product fetches into the cache meanwhile: one of `shares` equal parts of the panel that is packed next.
struct Prefetched {
  TileOperand operand;  // without elements: nothing
  std::int64_t share = 0;
  std::int64_t shares = 1;
};

/// While it exists, this thread's tiles are those of the products here. AMX must be usable (has_tiles).
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  alignas(64) std::array<std::byte, 64> before_;  // the configuration
};

/// The product of a left and a right panel of k terms: 32 x 32 elements of c, whose rows are `stride` elements long,
/// become it, or are increased by it if `adds`. Within a TileScope.
void multiply_panels(const std::byte* left, const std::byte* right, std::int64_t k, float* c, std::int64_t stride,
                     bool adds, const Prefetched& next);

/// Whether the system lets this process use AMX.
bool request_tiles();

}  // namespace heddle::cpu
