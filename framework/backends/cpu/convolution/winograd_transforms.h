// Winograd's transforms between images, or weights, and the 36 points at which F(4 x 4, 3 x 3) multiplies: over
// channels in vectors of 32 bytes, or of 64 bytes where the processor has AVX-512.
#pragma once

#include <cstdint>

namespace heddle::cpu {

enum class WinogradTransform {
  source,          // 6 x 6 pixels of a source -> 36 points
  gradient,        // 4 x 4 pixels of a target's gradient -> 36 points
  weight,          // 3 x 3 taps -> 36 points
  target,          // 36 points -> 4 x 4 pixels of a target
  weight_gradient  // 36 points -> 3 x 3 taps
};

/// What a transform reads and writes, each of which has `channels` values, a multiple of 16.
struct WinogradTile {
  const float* const* from;  // as many as the transform reads; null: zeros
  float* const* to;          // as many as it writes; null: left out
  std::int64_t channels;
};

void winograd_transform(WinogradTransform kind, const WinogradTile& tile);
/// The same without AVX-512; results may differ in rounding.
void winograd_transform_256(WinogradTransform kind, const WinogradTile& tile);

}  // namespace heddle::cpu
