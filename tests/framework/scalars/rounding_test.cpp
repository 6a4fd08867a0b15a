#include "framework/scalars/rounding.h"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "framework/backends/cpu/loops/draws.h"
#include "framework/scalars/scalar.h"
#include "tests/support/devices.h"

namespace heddle::test {
namespace {

constexpr std::uint32_t randoms = 1U << 16;

double widened(BFloat16 value) {
  return static_cast<float>(value);
}
double widened(Float16 value) {
  return static_cast<float>(value);
}
BFloat16 rounded(BFloat16 /*type*/, float value, std::uint32_t random) {
  BFloat16 result;
  result.bits = round_to_bf16(value, random);
  return result;
}
Float16 rounded(Float16 /*type*/, float value, std::uint32_t random) {
  Float16 result;
  result.bits = round_to_f16(value, random);
  return result;
}

/// The neighbours of a finite value in T, and the distance between them.
template <class T>
struct Bin {
  double below;
  double above;
  explicit Bin(float value) {
    T at;
    for (std::uint32_t bits = T(std::abs(value)).bits;; --bits) {
      at.bits = static_cast<std::uint16_t>(bits);
      if (widened(at) <= std::abs(value)) break;
    }
    below = widened(at);
    ++at.bits;
    above = widened(at);
  }
  double distance() const { return above - below; }
};

/// A value of every exponent that f32 has, down to its subnormals, with and without sign, within the range of T.
template <class T>
std::vector<float> values_of_every_bin(float largest) {
  RandomStream stream({17}, Purpose::test, 0, 0);
  std::vector<float> values;
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const float magnitude = std::ldexp(static_cast<float>(1 + stream.uniform()), exponent);
    if (magnitude > 0 && magnitude < largest) values.push_back(stream.uniform() < 0.5 ? -magnitude : magnitude);
  }
  return values;
}

template <class T>
void check_expectation(float largest, double bias_of_subnormals, double min_normal) {
  for (const float value : values_of_every_bin<T>(largest)) {
    const Bin<T> bin(value);
    double sum = 0;
    bool is_neighbour = true;
    for (std::uint32_t random = 0; random < randoms; ++random) {
      const double result = widened(rounded(T{}, value, random));
      is_neighbour = is_neighbour && (std::abs(result) == bin.below || std::abs(result) == bin.above) &&
                     std::signbit(result) == std::signbit(value);
      sum += result;  // exact: multiples of the distance, and few of them
    }
    const double bias = std::abs(sum / randoms - value) / bin.distance();
    CHECK_MESSAGE(is_neighbour, value);
    CHECK_MESSAGE(bias <= (std::abs(value) < min_normal ? bias_of_subnormals : 0.0), value);
  }
}

TEST_CASE("Over all random numbers bf16 and f16 round to the value itself in every exponent bin") {
  check_expectation<BFloat16>(3.38e38F, 0, 0x1p-126);
  check_expectation<Float16>(65504.0F, 0x1p-17, 0x1p-14);
}

TEST_CASE("Over all random numbers int8 rounds to the value itself, within 2^-17 of a step") {
  RandomStream stream({18}, Purpose::test, 0, 0);
  for (int i = 0; i < 200; ++i) {
    const float scale = std::ldexp(static_cast<float>(1 + stream.uniform()), i - 120);
    const float value = scale * static_cast<float>(254 * stream.uniform() - 127);
    double sum = 0;
    bool is_near = true;
    for (std::uint32_t random = 0; random < randoms; ++random) {
      const std::int8_t result = round_to_i8(value, scale, random);
      is_near = is_near && std::abs(result - value / scale) < 1;
      sum += result;
    }
    CHECK(is_near);
    CHECK(std::abs(sum / randoms - value / scale) <= 0x1p-17);
  }
}

template <class Round>
void check_drawn(float value, double below, double above, RoundedState state, Round round) {
  // Enough draws for the bound to be a small part of the distance.
  constexpr std::int64_t count = 1 << 16;
  const cpu::DrawStream stream({.key = {21}, .purpose = Purpose::rounding, .step = 5, .layer = 2});
  std::vector<std::uint16_t> draws(count);
  stream.rounding(state, 1000, count, draws.data());
  double sum = 0;
  for (const std::uint32_t draw : draws) sum += round(value, draw);
  const double share = (value - below) / (above - below);
  const double deviation = (above - below) * std::sqrt(share * (1 - share) / count);
  CHECK_MESSAGE(std::abs(sum / count - value) <= 5 * deviation + 0x1p-17 * (above - below), value);
}

TEST_CASE(
    "With the draws of a step the mean of roundings is the value, within five deviations, in every exponent bin") {
  for (const RoundedState state : {RoundedState::weight, RoundedState::momentum}) {
    const auto check = [state]<class T>(T type, float largest) {
      for (const float signed_value : values_of_every_bin<T>(largest)) {
        const float value = std::abs(signed_value);
        const Bin<T> bin(value);
        check_drawn(value, bin.below, bin.above, state,
                    [type](float x, std::uint32_t draw) { return widened(rounded(type, x, draw)); });
      }
    };
    check(BFloat16{}, 3.38e38F);
    check(Float16{}, 65504.0F);
    for (const float units : {0.0009F, 0.3F, 1.75F, 100.5F, 126.9F})
      check_drawn(units, std::floor(units), std::floor(units) + 1, state,
                  [](float x, std::uint32_t draw) { return static_cast<double>(round_to_i8(2 * x, 2, draw)); });
  }
}

TEST_CASE("Values that a format holds do not change, and values that are not finite or too large keep their kind") {
  const auto check = [](auto type, float largest) {
    using T = decltype(type);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      T held;
      held.bits = static_cast<std::uint16_t>(bits);
      const double value = widened(held);
      if (std::isnan(value)) continue;
      for (const std::uint32_t random : {0U, randoms - 1}) {
        const T again = rounded(type, static_cast<float>(value), random);
        if (again.bits != bits) FAIL_CHECK(value << " became " << widened(again));
      }
    }
    const float beyond = std::nextafter(largest, std::numeric_limits<float>::infinity());
    CHECK(widened(rounded(type, beyond, randoms - 1)) == largest);
    CHECK(widened(rounded(type, -std::numeric_limits<float>::max(), randoms - 1)) == -largest);
    for (const std::uint32_t random : {0U, randoms - 1}) {
      CHECK(std::isnan(widened(rounded(type, std::numeric_limits<float>::quiet_NaN(), random))));
      CHECK(std::isnan(widened(rounded(type, float_of(0xFF800001), random))));
    }
  };
  check(BFloat16{}, float_of(0x7F7F0000));
  check(Float16{}, 65504.0F);
  CHECK(round_to_i8(300, 2, randoms - 1) == 127);
  CHECK(round_to_i8(-300, 2, 0) == -127);
  CHECK(round_to_i8(1e-44F, scale_of(1e-44F), 0) == 0);  // a scale of zero
}

TEST_CASE("Rounding draws of a stretch are those of its elements, wherever it begins, and differ by state") {
  const DrawKey key{.key = {4}, .purpose = Purpose::rounding, .step = 9, .layer = 1};
  const cpu::DrawStream stream(key);
  const PhiloxBlock words = purpose_key(key.key, key.purpose);
  // Also where the number of a block needs more than 32 bits.
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{77}, (std::int64_t{1} << 35) - 200}) {
    std::vector<std::uint16_t> draws(500);
    for (const RoundedState state : {RoundedState::weight, RoundedState::momentum}) {
      stream.rounding(state, first, 500, draws.data());
      bool is_equal = true;
      for (std::int64_t i = 0; i < 500; ++i) {
        const RoundingDraw place = rounding_draw(state, static_cast<std::uint64_t>(first + i));
        const std::uint32_t word = draw_block(words, key, place.block).word[place.word];
        is_equal = is_equal && draws[static_cast<std::size_t>(i)] == ((word >> place.shift) & 0xFFFFU);
      }
      CHECK(is_equal);
    }
    std::vector<std::uint16_t> weights(500);
    stream.rounding(RoundedState::weight, first, 500, weights.data());
    CHECK(weights != draws);
  }
}

TEST_CASE("f16 rounds to nearest even and widens exactly, in every bin") {
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    Float16 at;
    Float16 above;
    at.bits = static_cast<std::uint16_t>(bits);
    above.bits = static_cast<std::uint16_t>(bits + 1);
    const int exponent = static_cast<int>(bits >> 10);
    const double expected = exponent == 0 ? std::ldexp(bits, -24) : std::ldexp(1024 + (bits & 1023U), exponent - 25);
    const auto middle = static_cast<float>(bits + 1 == 0x7C00 ? 65520.0 : (widened(at) + widened(above)) / 2);
    const bool is_right = widened(at) == expected && Float16(static_cast<float>(at)).bits == bits &&
                          Float16(middle).bits == (bits % 2 == 0 ? bits : bits + 1) &&
                          Float16(std::nextafter(middle, 0.0F)).bits == bits &&
                          Float16(std::nextafter(middle, 1e6F)).bits == bits + 1 &&
                          Float16(-static_cast<float>(at)).bits == (bits | 0x8000U);
    if (!is_right) FAIL_CHECK(bits);
  }
  CHECK(std::isinf(static_cast<float>(Float16(std::numeric_limits<float>::infinity()))));
  CHECK(std::isnan(static_cast<float>(Float16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace heddle::test
