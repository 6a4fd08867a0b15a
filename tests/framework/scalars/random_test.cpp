#include "framework/scalars/random.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "framework/backends/cpu/loops/philox_blocks.h"
#include "framework/scalars/scalar.h"
#include "tests/support/devices.h"

namespace heddle::test {
namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

TEST_CASE("Philox4x32-10 gives its published known answers") {
  CHECK(philox(Counter{}, Key{}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xFFFFFFFF;
  CHECK(philox(Counter{ones, ones, ones, ones}, Key{ones, ones}) ==
        Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, Key{0xa4093822, 0x299f31d0}) ==
        Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("Sixteen blocks of Philox are the blocks one by one, in vectors of every width") {
  const cpu::PhiloxStream stream(3, 0xFFFFFFFE, 5, 0x80000007);
  std::vector<void (cpu::PhiloxStream::*)(std::uint64_t, void*) const> ways{&cpu::PhiloxStream::draw,
                                                                            &cpu::PhiloxStream::draw_in_four_lanes};
#ifdef __AVX2__
  if (cpu::has_avx512) ways.push_back(&cpu::PhiloxStream::draw_in_eight_lanes);
#endif
  for (const auto draw : ways)
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{0xFFFFFFF0}, (std::uint64_t{9} << 32) + 48}) {
      std::vector<std::byte> memory(sizeof(cpu::PhiloxBlocks) + 2);
      (stream.*draw)(first, memory.data() + 2);
      cpu::PhiloxBlocks blocks;
      std::memcpy(&blocks, memory.data() + 2, sizeof blocks);
      for (std::uint64_t i = 0; i < 16; ++i) {
        const std::uint64_t number = first + i;
        const Counter expected =
            philox(Counter{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 5, 0x80000007},
                   Key{3, 0xFFFFFFFE});
        for (std::size_t k = 0; k < 4; ++k) CHECK(blocks.word[k][i] == expected[k]);
      }
    }
}

TEST_CASE("A stream is a function of seed, purpose, step and index, and of nothing else") {
  const auto draw = [](std::uint64_t seed, Purpose purpose, std::uint64_t step, std::uint64_t index) {
    return RandomStream({seed}, purpose, step, index).next_u32();
  };
  const std::uint32_t base = draw(1, Purpose::test, 2, 3);
  CHECK(draw(1, Purpose::test, 2, 3) == base);
  CHECK(draw(2, Purpose::test, 2, 3) != base);
  CHECK(draw(1ULL << 32 | 1, Purpose::test, 2, 3) != base);
  CHECK(draw(1, Purpose::shuffle, 2, 3) != base);
  CHECK(draw(1, Purpose::test, 3, 3) != base);
  CHECK(draw(1, Purpose::test, 2, 4) != base);
  CHECK(draw(1, Purpose::test, 2, 1ULL << 32 | 3) != base);
}

TEST_CASE("Uniform and normal draws have their moments, and 'below' reaches every value evenly") {
  constexpr int count = 100000;
  RandomStream stream({5}, Purpose::test, 0, 0);
  bool is_inside = true;
  double uniform = 0;
  double normal = 0;
  double square = 0;
  std::array<int, 7> seen{};
  for (int i = 0; i < count; ++i) {
    const double u = stream.uniform();
    is_inside = is_inside && u >= 0 && u < 1;
    uniform += u / count;
    const double n = stream.normal();
    normal += n / count;
    square += n * n / count;
    ++seen.at(stream.below(seen.size()));
  }
  CHECK(is_inside);
  CHECK(std::abs(uniform - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::abs(normal) < 5 / std::sqrt(count));
  CHECK(std::abs(square - 1) < 5 * std::sqrt(2.0 / count));
  for (const int times : seen) CHECK(std::abs(times - count / 7.0) < 5 * std::sqrt(count / 7.0));
}

TEST_CASE("The extreme words give uniforms within (0, 1) and finite normals") {
  CHECK(uniform_from_bits(0) > 0);
  CHECK(uniform_from_bits(0xFFFFFFFF) < 1);
  CHECK(std::isfinite(normal_from_bits(0, 0)));
  CHECK(std::isfinite(normal_from_bits(0xFFFFFFFF, 0xFFFFFFFF)));
}

TEST_CASE("A tensor filled in pieces is the tensor filled at once, in every type") {
  Device device = make_device();
  const TrainingKernels& kernels = device.backend().training();
  const DrawKey key{.key = {3}, .purpose = Purpose::initial_weights, .step = 1, .layer = 4};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    Tensor whole = Tensor::empty(device, {9001}, dtype);
    Tensor pieces = Tensor::empty(device, {9001}, dtype);
    const auto fill_pieces = [&](auto fill) {
      for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 1}, {1, 6}, {6, 4099}, {4099, 9001}}) {
        Tensor piece = pieces.rows(begin, end);
        fill(piece, begin);
      }
    };
    kernels.fill_normal(whole, key, 70, 1, 0.5);
    fill_pieces([&](Tensor& piece, int begin) { kernels.fill_normal(piece, key, 70 + begin, 1, 0.5); });
    CHECK(pieces.to_doubles() == whole.to_doubles());
    kernels.fill_uniform(whole, key, 70, -1, 2);
    fill_pieces([&](Tensor& piece, int begin) { kernels.fill_uniform(piece, key, 70 + begin, -1, 2); });
    CHECK(pieces.to_doubles() == whole.to_doubles());
    Tensor ones = Tensor::full(device, {9001}, dtype, 1);
    kernels.dropout(ones, key, 70, 0.25, whole);
    fill_pieces([&](Tensor& piece, int begin) {
      kernels.dropout(ones.rows(begin, begin + piece.numel()), key, 70 + begin, 0.25, piece);
    });
    CHECK(pieces.to_doubles() == whole.to_doubles());
    const std::vector<double> dropped = whole.to_doubles();
    const auto zeros = static_cast<double>(std::count(dropped.begin(), dropped.end(), 0.0));
    CHECK(std::abs(zeros / 9001 - 0.25) < 5 * std::sqrt(0.25 * 0.75 / 9001));
    CHECK(std::set<double>(dropped.begin(), dropped.end()).size() == 2);
  }
}

TEST_CASE("Normal draws are Box and Muller's of their words to f64 rounding") {
  RandomStream stream({6}, Purpose::test, 0, 0);
  std::vector<std::uint32_t> words{0, 1, 0x3FFFFFFF, 0x40000000, 0x7FFFFFFF, 0x80000000, 0xB504F333, 0xFFFFFFFF};
  for (int i = 0; i < 300; ++i) words.push_back(stream.next_u32());
  bool is_near = true;
  for (const std::uint32_t a : words)
    for (const std::uint32_t b : words) {
      const double radius = std::sqrt(-2 * std::log((a + 0.5) / 4294967296.0));
      const double expected = radius * std::cos(6.283185307179586 * (b / 4294967296.0));
      is_near = is_near && std::abs(normal_from_bits(a, b) - expected) <= 1e-15 * radius;
    }
  CHECK(is_near);
}

TEST_CASE("Every element of a filled window is the draw of its global index") {
  Device device = make_device();
  const TrainingKernels& kernels = device.backend().training();
  const DrawKey key{.key = {3}, .purpose = Purpose::initial_weights, .step = 1, .layer = 4};
  const PhiloxBlock words = purpose_key(key.key, key.purpose);
  // Also where the number of a block needs more than 32 bits.
  for (const std::int64_t first : {std::int64_t{5}, (std::int64_t{1} << 33) - 300, (std::int64_t{1} << 34) - 300}) {
    const DrawWindow window(first, 70, 1001);
    Tensor normal = Tensor::empty(device, {1234}, DType::f32);
    Tensor uniform = Tensor::empty(device, {1234}, DType::f32);
    kernels.fill_normal(normal, key, window, 0, 1);
    kernels.fill_uniform(uniform, key, window, 0, 1);
    bool is_equal = true;
    for (std::int64_t i = 0; i < 1234; ++i) {
      const auto element = static_cast<std::uint64_t>(first + i / 70 * 1001 + i % 70);
      const auto at = static_cast<std::size_t>(i);
      const double expected = normal_draw(draw_block(words, key, element / 2), element);
      is_equal = is_equal && std::abs(normal.to_host<float>()[at] - expected) <= 1e-7 * std::abs(expected) &&
                 uniform.to_host<float>()[at] == uniform_draw(draw_block(words, key, element / 4), element);
    }
    CHECK(is_equal);
  }
}

TEST_CASE("Layers and steps have different draws") {
  Device device = make_device();
  const auto draw = [&](std::uint32_t step, std::uint32_t layer) {
    Tensor y = Tensor::empty(device, {8}, DType::f64);
    const DrawKey key{.key = {3}, .purpose = Purpose::dropout, .step = step, .layer = layer};
    device.backend().training().fill_uniform(y, key, 0, 0, 1);
    return y.to_doubles();
  };
  CHECK(draw(1, 2) != draw(1, 3));
  CHECK(draw(1, 2) != draw(2, 2));
  CHECK(draw(1, 2) != draw(2, 1));
}

}  // namespace
}  // namespace heddle::test
