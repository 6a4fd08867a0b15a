#include "framework/backends/cpu/linear_algebra/padded_product.h"

#include <algorithm>

#include "framework/backends/cpu/loops/parallel.h"
#include "framework/error.h"

namespace heddle::cpu {

namespace {

/// How many of the k rows are copied at a time: their copies take at most 16 MiB.
std::int64_t rows_per_block(const GemmShape& s) {
  constexpr std::int64_t max_rows = 1024;
  constexpr std::int64_t max_elements = std::int64_t{4} << 20;
  return std::clamp<std::int64_t>(max_elements / (s.m + s.n + 2 * gemm_padding), 1, max_rows);
}

/// The product over `rows` of the k rows, added to the result unless they are the first.
const GemmPrimitive& product_of_rows(GemmPrimitives& primitives, const GemmShape& whole, std::int64_t rows,
                                     bool is_first) {
  GemmShape block = whole;
  block.k = rows;
  block.is_padded = true;
  if (!is_first) block.beta = 1;
  const GemmPrimitive* const found = primitives.find(block, gemm_f32);
  if (found == nullptr) fail("gemm: oneDNN has no product in f32");
  return *found;
}

void copy_rows(const float* from, std::int64_t rows, std::int64_t length, float* to) {
  parallel_for(rows, std::max<std::int64_t>(1, default_grain / length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      std::copy_n(from + row * length, length, to + row * (length + gemm_padding));
  });
}

std::int64_t copy_bytes(const GemmShape& s, std::int64_t length) {
  return aligned(4 * std::min(s.k, rows_per_block(s)) * (length + gemm_padding));
}

/// body(first row, rows) for each block.
template <class F>
void for_each_block(const GemmShape& s, F body) {
  const std::int64_t step = rows_per_block(s);
  for (std::int64_t first = 0; first < s.k; first += step) body(first, std::min(step, s.k - first));
}

}  // namespace

bool is_faster_padded(const GemmShape& s, GemmTypes types) {
  constexpr std::int64_t slow_length = 512;  // elements of f32: 2 KiB
  constexpr std::int64_t min_length = 64;    // below, copying costs as much as it gains
  if (!(types == gemm_f32) || !s.transpose_a || s.transpose_b) return false;
  constexpr std::int64_t max_length = 65536;  // above, a block would have too few rows
  if (std::min({s.m, s.n, s.k}) < min_length || s.m + s.n > max_length) return false;
  if (s.m % slow_length != 0 && s.n % slow_length != 0) return false;
  // Above, oneDNN copies the operands itself (FORCE_NOCOPY_THRESH of its AVX2 code).
  return 1.0 / static_cast<double>(s.m) + 1.0 / static_cast<double>(s.n) >= 0.0038;
}

std::int64_t padded_needs(GemmPrimitives& primitives, const GemmShape& s) {
  std::int64_t scratch = 0;
  for_each_block(s, [&](std::int64_t first, std::int64_t rows) {
    scratch = std::max(scratch, product_of_rows(primitives, s, rows, first == 0).scratch_bytes);
  });
  return copy_bytes(s, s.m) + copy_bytes(s, s.n) + scratch;
}

void padded_product(const OneDnn& onednn, GemmPrimitives& primitives, const GemmShape& s, const float* a,
                    const float* b, float* c, std::byte* workspace) {
  auto* const padded_a = reinterpret_cast<float*>(workspace);
  auto* const padded_b = reinterpret_cast<float*>(workspace + copy_bytes(s, s.m));
  std::byte* const scratch = workspace + copy_bytes(s, s.m) + copy_bytes(s, s.n);
  const ThreadTeam team(onednn.threads());
  for_each_block(s, [&](std::int64_t first, std::int64_t rows) {
    copy_rows(a + first * s.m, rows, s.m, padded_a);
    copy_rows(b + first * s.n, rows, s.n, padded_b);
    product_of_rows(primitives, s, rows, first == 0).run(onednn, padded_a, padded_b, c, scratch);
  });
}

}  // namespace heddle::cpu
