// Sums whose order depends on shapes only: lanes within a block, blocks in f64 in order. So the bits are the same for
// any number of threads and any alignment.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

/// Sum of value(i) for begin <= i < end in sixteen interleaved partial sums, which the compiler turns into vectors.
template <class C, class F>
C lane_sum(std::int64_t begin, std::int64_t end, F value) {
  constexpr int lanes = 16;
  std::array<C, lanes> partial{};
  C* const p = partial.data();
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) p[lane] += value(i + lane);
  for (int lane = 0; i < end; ++i, ++lane) p[lane] += value(i);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) p[lane] += p[lane + width];
  return p[0];
}

/// The same in f64 over stretches of 1024, each summed in C.
template <class C, class F>
double stretched_sum(std::int64_t begin, std::int64_t end, F value) {
  constexpr std::int64_t stretch = 1024;
  double total = 0;
  for (std::int64_t i = begin; i < end; i += stretch) total += lane_sum<C>(i, std::min(i + stretch, end), value);
  return total;
}

/// Sum over 0 .. count-1 by the thread team: at most 256 blocks, added in order.
template <class C, class F>
double parallel_sum(std::int64_t count, F value) {
  constexpr std::int64_t max_chunks = 256;
  const std::int64_t length = std::max<std::int64_t>(16384, (count + max_chunks - 1) / max_chunks);
  const std::int64_t blocks = (count + length - 1) / length;
  std::array<double, max_chunks> partial;
  parallel_for(blocks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      partial[static_cast<std::size_t>(b)] = stretched_sum<C>(b * length, std::min((b + 1) * length, count), value);
  });
  double total = 0;
  for (std::int64_t b = 0; b < blocks; ++b) total += partial[static_cast<std::size_t>(b)];
  return total;
}

/// Calls out(c, sum over r of value(r, c)) for every column. Rows are cut into at most 16 chunks where there are few
/// columns, added in order; within a chunk 64 rows at a time are summed in C.
template <class C, class Value, class Out>
void sum_columns(std::int64_t rows, std::int64_t columns, Value value, Out out) {
  constexpr std::int64_t tile = 128;
  if (columns == 1) {
    out(0, parallel_sum<C>(rows, [&](std::int64_t r) { return value(r, 0); }));
    return;
  }
  const std::int64_t tiles = (columns + tile - 1) / tile;
  const std::int64_t chunks = tiles >= 16 ? 1 : std::clamp<std::int64_t>(rows / 256, 1, 16);
  std::vector<double> partial(static_cast<std::size_t>(chunks > 1 ? chunks * columns : 0));
  const std::int64_t work_per_unit = std::max<std::int64_t>(1, rows / chunks * std::min(columns, tile));
  parallel_for(tiles * chunks, 1 + 32768 / work_per_unit, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t chunk = unit / tiles;
      const std::int64_t first = unit % tiles * tile;
      const std::int64_t width = std::min(tile, columns - first);
      std::array<double, tile> total{};
      const std::int64_t last_row = rows * (chunk + 1) / chunks;
      for (std::int64_t row = rows * chunk / chunks; row < last_row; row += 64) {
        std::array<C, tile> block{};
        C* const sums = block.data();
        for (std::int64_t r = row; r < std::min(row + 64, last_row); ++r)
          for (std::int64_t c = 0; c < width; ++c) sums[c] += value(r, first + c);
        for (std::int64_t c = 0; c < width; ++c) total[static_cast<std::size_t>(c)] += sums[c];
      }
      for (std::int64_t c = 0; c < width; ++c) {
        if (chunks == 1)
          out(first + c, total[static_cast<std::size_t>(c)]);
        else
          partial[static_cast<std::size_t>(chunk * columns + first + c)] = total[static_cast<std::size_t>(c)];
      }
    }
  });
  if (chunks == 1) return;
  for (std::int64_t c = 0; c < columns; ++c) {
    double total = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      total += partial[static_cast<std::size_t>(chunk * columns + c)];
    out(c, total);
  }
}

}  // namespace heddle::cpu
