#include "framework/backends/cpu/linear_algebra/tile_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

namespace heddle::test {

namespace {

using cpu::GemmShape;

/// Normal draws whose sizes differ by factors of up to 2^12.
std::vector<float> draws(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint64_t state = seed;
  for (float& value : values) {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      sum += static_cast<double>(state >> 33) / 2147483648.0;
    }
    value = static_cast<float>(std::ldexp(sum - 6, static_cast<int>(state >> 60) - 8));
  }
  return values;
}

float left_element(const GemmShape& s, const std::vector<float>& a, std::int64_t row, std::int64_t k) {
  return a[static_cast<std::size_t>(s.transpose_a ? k * s.m + row : row * s.k + k)];
}
float right_element(const GemmShape& s, const std::vector<float>& b, std::int64_t k, std::int64_t column) {
  return b[static_cast<std::size_t>(s.transpose_b ? column * s.k + k : k * s.n + column)];
}

std::vector<float> product_on_tiles(const GemmShape& s, const std::vector<float>& a, const std::vector<float>& b,
                                    std::vector<float> c, int threads = 1) {
  std::vector<std::byte> workspace(static_cast<std::size_t>(cpu::tile_needs(s)) + 64);
  auto* const aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
  if (!s.packs_b) {
    cpu::tile_product(threads, s, a.data(), b.data(), c.data(), aligned);
    return c;
  }
  std::vector<std::byte> packed(static_cast<std::size_t>(cpu::packed_tile_bytes(s.n, s.k)) + 64);
  auto* const panels = packed.data() + (64 - reinterpret_cast<std::uintptr_t>(packed.data()) % 64) % 64;
  cpu::pack_for_tiles(threads, b.data(), s.transpose_b, s.n, s.k, panels);
  cpu::tile_product(threads, s, a.data(), panels, c.data(), aligned);
  return c;
}

/// The largest errors over all elements, relative to the sum of the terms' absolute values.
struct TileErrors {
  double on_tiles = 0;
  double in_f32 = 0;  // of a sum of rounded terms, one after the other
};

TileErrors tile_errors(const GemmShape& s) {
  const std::vector<float> a = draws(s.m * s.k, 1), b = draws(s.k * s.n, 2), before = draws(s.m * s.n, 3);
  const std::vector<float> c = product_on_tiles(s, a, b, before);
  TileErrors errors;
  for (std::int64_t row = 0; row < s.m; ++row)
    for (std::int64_t column = 0; column < s.n; ++column) {
      const auto at = static_cast<std::size_t>(row * s.n + column);
      double exact = s.beta * static_cast<double>(before[at]);
      double size = std::abs(exact);
      auto plain = static_cast<float>(exact);
      for (std::int64_t k = 0; k < s.k; ++k) {
        const float x = left_element(s, a, row, k), y = right_element(s, b, k, column);
        exact += static_cast<double>(x) * static_cast<double>(y);
        size += std::abs(static_cast<double>(x) * static_cast<double>(y));
        plain = std::fma(x, y, plain);
      }
      errors.on_tiles = std::max(errors.on_tiles, std::abs(static_cast<double>(c[at]) - exact) / size);
      errors.in_f32 = std::max(errors.in_f32, std::abs(static_cast<double>(plain) - exact) / size);
    }
  return errors;
}

bool lacks_tiles() {
  if (!cpu::has_tiles()) MESSAGE("not run: this processor has no AMX, or it is switched off");
  return !cpu::has_tiles();
}

}  // namespace

TEST_CASE("tiles: products of f32 have no larger errors than sums in f32, with edges and every transposition") {
  if (lacks_tiles()) return;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const double beta : {0.0, 1.0, -2.0})
        for (const auto& [m, n, k] :
             {std::array<std::int64_t, 3>{64, 96, 128}, {67, 131, 97}, {150, 70, 613}, {33, 1, 1}}) {
          const GemmShape shape{
              .m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b, .beta = beta};
          CAPTURE(transpose_a);
          CAPTURE(transpose_b);
          CAPTURE(beta);
          CAPTURE(m);
          const TileErrors plain = tile_errors(shape);
          CHECK(plain.on_tiles <= std::max(plain.in_f32, 0x1p-23));
          if (transpose_a) continue;
          GemmShape packed = shape;
          packed.packs_b = true;
          CHECK(tile_errors(packed).on_tiles <= std::max(plain.in_f32, 0x1p-23));
        }
}

TEST_CASE("tiles: no bit depends on the number of threads, and neighbours in c stay as they are") {
  if (lacks_tiles()) return;
  const GemmShape shape{.m = 300, .n = 83, .k = 700, .transpose_b = true};
  const std::vector<float> a = draws(shape.m * shape.k, 1), b = draws(shape.k * shape.n, 2);
  std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n) + 8, 7);
  const std::vector<float> alone = product_on_tiles(shape, a, b, c);
  for (const int threads : {3, 40}) CHECK(product_on_tiles(shape, a, b, c, threads) == alone);
  for (std::size_t i = alone.size() - 8; i < alone.size(); ++i) CHECK(alone[i] == 7);
}

TEST_CASE("tiles: elements that are not finite make their rows and columns NaN, and no others") {
  if (lacks_tiles()) return;
  const GemmShape shape{.m = 70, .n = 80, .k = 90};
  std::vector<float> a = draws(shape.m * shape.k, 1), b = draws(shape.k * shape.n, 2);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  a[3 * 90 + 89] = infinity;
  a[65 * 90] = std::bit_cast<float>(0x7f800001U);  // a NaN whose payload is in the last bits
  a[66 * 90 + 1] = std::bit_cast<float>(0xffffffffU);
  b[7] = -infinity;
  const std::vector<float> c = product_on_tiles(shape, a, b, std::vector<float>(70 * 80));
  for (std::int64_t row = 0; row < 70; ++row)
    for (std::int64_t column = 0; column < 80; ++column) {
      const bool is_nan = row == 3 || row == 65 || row == 66 || column == 7;
      CHECK(std::isnan(c[static_cast<std::size_t>(row * 80 + column)]) == is_nan);
    }
}

TEST_CASE("tiles: which products are faster on them") {
  using cpu::gemm_f32;
  const GemmShape logits{.m = 256, .n = 1024, .k = 512, .transpose_b = true};
  CHECK(cpu::is_faster_on_tiles(logits, gemm_f32) == cpu::has_tiles());
  CHECK_FALSE(cpu::is_faster_on_tiles(logits, {DType::bf16, DType::f32}));
  CHECK_FALSE(cpu::is_faster_on_tiles({.m = 8, .n = 1024, .k = 512}, gemm_f32));
  CHECK_FALSE(cpu::is_faster_on_tiles({.m = 64, .n = 256, .k = 192}, gemm_f32));
  CHECK_FALSE(cpu::is_faster_on_tiles({.m = 64, .n = 128, .k = 4096}, gemm_f32));
  CHECK_FALSE(cpu::is_faster_on_tiles({.m = 2048, .n = 1024, .k = 512}, gemm_f32));
  CHECK_FALSE(cpu::is_faster_on_tiles({.m = 256, .n = 1024, .k = 512, .alpha = 2}, gemm_f32));
}

}  // namespace heddle::test
