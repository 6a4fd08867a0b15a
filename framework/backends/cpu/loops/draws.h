// Random draws for stretches of elements, sixteen Philox blocks at a time, each a lane of its vectors. The values are
// those of framework/scalars/scalar.h and framework/scalars/rounding.h for the elements' global indices, wherever a
// stretch begins.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "framework/backends/cpu/loops/philox_blocks.h"
#include "framework/scalars/rounding.h"
#include "framework/scalars/scalar.h"

namespace heddle::cpu {

/// Names a stream; made once for many draws.
class DrawStream {
 public:
  explicit DrawStream(const DrawKey& key) : DrawStream(purpose_key(key.key, key.purpose), key) {}

  /// Normal deviates of elements element .. element + count - 1.
  void normals(std::int64_t element, std::int64_t count, double* to) const {
    in_groups<2 * lanes>(element, count, to, [this](std::int64_t group, double* draws) {
      const PhiloxBlocks blocks = sixteen(static_cast<std::uint64_t>(lanes * group));
      for (int lane = 0; lane < lanes; ++lane) {
        draws[2 * lane] = normal_from_bits(blocks.word[0][lane], blocks.word[1][lane]);
        draws[2 * lane + 1] = normal_from_bits(blocks.word[2][lane], blocks.word[3][lane]);
      }
    });
  }

  /// Uniform in (0, 1).
  void uniforms(std::int64_t element, std::int64_t count, float* to) const {
    in_groups<4 * lanes>(element, count, to, [this](std::int64_t group, float* draws) {
      const PhiloxBlocks blocks = sixteen(static_cast<std::uint64_t>(lanes * group));
      for (int lane = 0; lane < lanes; ++lane) {
        draws[4 * lane] = uniform_from_bits(blocks.word[0][lane]);
        draws[4 * lane + 1] = uniform_from_bits(blocks.word[1][lane]);
        draws[4 * lane + 2] = uniform_from_bits(blocks.word[2][lane]);
        draws[4 * lane + 3] = uniform_from_bits(blocks.word[3][lane]);
      }
    });
  }

  /// 16 bits per element, as `rounding_draw` places them: the words as they lie in memory.
  void rounding(RoundedState state, std::int64_t element, std::int64_t count, std::uint16_t* to) const {
    in_groups<RoundingDraw::group>(element, count, to, [this, state](std::int64_t group, std::uint16_t* draws) {
      stream_.draw(first_rounding_block(state, static_cast<std::uint64_t>(group)), draws);
    });
  }

 private:
  static constexpr int lanes = PhiloxBlocks::count;

  DrawStream(const PhiloxBlock& words, const DrawKey& key)
      : stream_(words.word[0], words.word[1], key.step, key.layer) {}

  PhiloxBlocks sixteen(std::uint64_t first) const {
    PhiloxBlocks blocks;
    stream_.draw(first, &blocks);
    return blocks;
  }

  /// Calls draw(group, draws) for the groups of `size` elements that the stretch touches, straight into `to` where the
  /// stretch covers one.
  template <std::int64_t size, class T, class F>
  static void in_groups(std::int64_t element, std::int64_t count, T* to, F draw) {
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t lead = (element + i) % size;
      const std::int64_t length = std::min(size - lead, count - i);
      if (length == size) {
        draw((element + i) / size, to + i);
      } else {
        std::array<T, size> part;
        draw((element + i) / size, part.data());
        std::copy_n(part.data() + lead, length, to + i);
      }
      i += length;
    }
  }

  PhiloxStream stream_;
};

}  // namespace heddle::cpu
