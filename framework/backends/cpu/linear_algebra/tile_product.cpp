#include "framework/backends/cpu/linear_algebra/tile_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "framework/backends/cpu/linear_algebra/tile_kernels.h"
#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

namespace {

constexpr std::int64_t max_depth = 512;

std::int64_t panels_of(std::int64_t across) {
  return (across + panel_size - 1) / panel_size;
}

/// The terms that are multiplied together: so many that the packed operand stays in the cache of a core (2 MiB).
std::int64_t depth_for(std::int64_t across) {
  constexpr std::int64_t cached_bytes = std::int64_t{1} << 20;
  const std::int64_t tiles = cached_bytes / (panels_of(across) * panel_bytes(tile_terms));
  return std::clamp(tiles * tile_terms, 4 * tile_terms, max_depth);
}

/// body(first term, terms) for each block of k.
template <class F>
void for_each_depth(std::int64_t across, std::int64_t k, F body) {
  const std::int64_t depth = depth_for(across);
  for (std::int64_t first = 0; first < k; first += depth) body(first, std::min(depth, k - first));
}

void pack_panels(const TileOperand& operand, OperandSide side, std::int64_t first_k, std::int64_t k, std::byte* to) {
  parallel_for(panels_of(operand.across), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel)
      pack_panel(operand, side, panel * panel_size, first_k, k, to + panel * panel_bytes(k));
  });
}

TileOperand left_operand(const GemmShape& s, const float* a) {
  return {a, s.m, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1};
}

TileOperand right_operand(const float* b, bool transpose, std::int64_t n, std::int64_t k) {
  return {b, n, transpose ? k : 1, transpose ? 1 : n};
}

bool packs_left(const GemmShape& s) {
  return !s.packs_b && s.m <= s.n;
}

/// The rows or columns of the packed operand.
std::int64_t packed_across(const GemmShape& s) {
  return packs_left(s) ? s.m : s.n;
}

/// A block of the result, which at its edges is less than 32 x 32.
struct ResultBlock {
  float* elements;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t columns;
};

void multiply_into(const std::byte* left, const std::byte* right, std::int64_t k, const ResultBlock& c, bool adds,
                   const Prefetched& next) {
  if (c.rows >= panel_size && c.columns >= panel_size)
    return multiply_panels(left, right, k, c.elements, c.stride, adds, next);
  std::array<float, panel_size * panel_size> whole{};
  const std::int64_t rows = std::min(c.rows, panel_size);
  const std::int64_t columns = std::min(c.columns, panel_size);
  if (adds)
    for (std::int64_t row = 0; row < rows; ++row)
      std::copy_n(c.elements + row * c.stride, columns, whole.data() + row * panel_size);
  multiply_panels(left, right, k, whole.data(), panel_size, adds, next);
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(whole.data() + row * panel_size, columns, c.elements + row * c.stride);
}

/// The product over a block of k with all panels of one operand packed.
void multiply_block(const GemmShape& s, const TileOperand& streamed, const std::byte* packed, std::int64_t first_k,
                    std::int64_t k, float* c, bool adds) {
  const bool left_is_packed = packs_left(s);
  const std::int64_t packed_panels = panels_of(packed_across(s));
  // Where there are fewer panels than threads, several threads pack the same one, and multiply it by some of the
  // others.
  const std::int64_t streamed_panels = panels_of(streamed.across);
  const std::int64_t shares = std::clamp<std::int64_t>(omp_get_max_threads() / streamed_panels, 1, packed_panels);
  parallel_for(streamed_panels * shares, 1, [&](std::int64_t begin, std::int64_t end) {
    const TileScope scope;
    alignas(64) std::array<std::byte, panel_bytes(max_depth)> panel;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t p = item / shares;
      const std::int64_t share = item % shares;
      pack_panel(streamed, left_is_packed ? OperandSide::right : OperandSide::left, p * panel_size, first_k, k,
                 panel.data());
      Prefetched next{.operand = streamed, .shares = packed_panels};
      next.operand.elements += (p + 1) * panel_size * streamed.across_stride + first_k * streamed.k_stride;
      if (shares > 1 || item + 1 == end) next.operand.elements = nullptr;
      for (std::int64_t i = packed_panels * share / shares; i < packed_panels * (share + 1) / shares; ++i) {
        next.share = i;
        const std::byte* const whole = packed + i * panel_bytes(k);
        const std::int64_t row = panel_size * (left_is_packed ? i : p);
        const std::int64_t column = panel_size * (left_is_packed ? p : i);
        multiply_into(left_is_packed ? whole : panel.data(), left_is_packed ? panel.data() : whole, k,
                      {c + row * s.n + column, s.n, s.m - row, s.n - column}, adds, next);
      }
    }
  });
}

}  // namespace

bool has_tiles() {
  static const bool has =
      has_instructions(dnnl::get_effective_cpu_isa(), dnnl::cpu_isa::avx512_core_amx) && request_tiles();
  return has;
}

bool is_faster_on_tiles(const GemmShape& s, GemmTypes types) {
  // Below, most of the time goes into packing.
  constexpr std::int64_t min_size = 64;
  constexpr double min_terms = 8e6;
  constexpr std::int64_t min_streamed = 256;  // panels for several threads
  constexpr std::int64_t max_packed = 512;    // above, the packed operand does not stay in the cache
  if (!(types == gemm_f32) || s.is_padded || s.alpha != 1) return false;
  const auto [packed, streamed] = packs_left(s) ? std::pair(s.m, s.n) : std::pair(s.n, s.m);
  if (std::min(packed, s.k) < min_size || packed > max_packed || streamed < min_streamed) return false;
  const double terms = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  return terms >= min_terms && has_tiles();
}

std::int64_t tile_needs(const GemmShape& s) {
  if (s.packs_b) return 0;
  const std::int64_t across = packed_across(s);
  return panels_of(across) * panel_bytes(std::min(s.k, depth_for(across)));
}

void tile_product(int threads, const GemmShape& s, const float* a, const void* b, float* c, std::byte* workspace) {
  const ThreadTeam team(threads);
  const TileOperand left = left_operand(s, a);
  const TileOperand right = right_operand(static_cast<const float*>(b), s.transpose_b, s.n, s.k);
  const bool left_is_packed = packs_left(s);
  const auto* packed = static_cast<const std::byte*>(b);
  if (s.beta != 0 && s.beta != 1)
    for (std::int64_t i = 0; i < s.m * s.n; ++i) c[i] *= static_cast<float>(s.beta);
  for_each_depth(packed_across(s), s.k, [&](std::int64_t first, std::int64_t k) {
    if (!s.packs_b) {
      pack_panels(left_is_packed ? left : right, left_is_packed ? OperandSide::left : OperandSide::right, first, k,
                  workspace);
      packed = workspace;
    }
    multiply_block(s, left_is_packed ? right : left, packed, first, k, c, s.beta != 0 || first > 0);
    if (s.packs_b) packed += panels_of(s.n) * panel_bytes(k);
  });
}

std::int64_t packed_tile_bytes(std::int64_t n, std::int64_t k) {
  std::int64_t bytes = 0;
  for_each_depth(n, k, [&](std::int64_t, std::int64_t terms) { bytes += panels_of(n) * panel_bytes(terms); });
  return bytes;
}

void pack_for_tiles(int threads, const float* b, bool transpose_b, std::int64_t n, std::int64_t k, std::byte* packed) {
  const ThreadTeam team(threads);
  for_each_depth(n, k, [&](std::int64_t first, std::int64_t terms) {
    pack_panels(right_operand(b, transpose_b, n, k), OperandSide::right, first, terms, packed);
    packed += panels_of(n) * panel_bytes(terms);
  });
}

}  // namespace heddle::cpu
