#include "framework/backends/cpu/convolution/winograd_transforms.h"

#include <array>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compare/difference.h"

namespace heddle::test {

namespace {

/// One transform of `in` rows of channels into `out` rows, one row of each being left out.
std::vector<double> transformed(void (*transform)(cpu::WinogradTransform, const cpu::WinogradTile&),
                                cpu::WinogradTransform kind, std::size_t in, std::size_t out) {
  constexpr std::size_t channels = 48;
  std::vector<float> from(in * channels);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i * i % 97) / 31 - 1.5F;
  std::vector<float> to(out * channels, -7);
  std::array<const float*, 36> sources{};
  std::array<float*, 36> targets{};
  for (std::size_t i = 0; i < in; ++i) sources[i] = i == 3 ? nullptr : from.data() + i * channels;
  for (std::size_t i = 0; i < out; ++i) targets[i] = i == 5 ? nullptr : to.data() + i * channels;
  transform(kind, {sources.data(), targets.data(), channels});
  return {to.begin(), to.end()};
}

}  // namespace

TEST_CASE("winograd: transforms in vectors of 64 bytes are those of 32 bytes") {
  using Kind = cpu::WinogradTransform;
  struct Sizes {
    Kind kind;
    std::size_t in, out;
  };
  for (const auto& [kind, in, out] : {Sizes{Kind::source, 36, 36},
                                      {Kind::gradient, 16, 36},
                                      {Kind::weight, 9, 36},
                                      {Kind::target, 36, 16},
                                      {Kind::weight_gradient, 36, 9}}) {
    CAPTURE(static_cast<int>(kind));
    const std::vector<double> narrow = transformed(cpu::winograd_transform_256, kind, in, out);
    CHECK(difference(transformed(cpu::winograd_transform, kind, in, out), narrow) < 1e-6);
    for (std::size_t c = 5 * 48; c < 6 * 48; ++c) CHECK(narrow[c] == -7);  // the row that is left out
  }
}

}  // namespace heddle::test
