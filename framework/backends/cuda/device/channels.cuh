// Rows of channels, [rows, channels], as blocks take them: neighbouring threads have neighbouring packs of channels,
// and the threads that are left take further rows at the same time. So each thread reads what belongs to a channel
// once, and sums over rows stay in registers.
#pragma once

#include "framework/backends/cuda/device/block.cuh"

namespace heddle::cuda {

/// Which rows and channels a block has. Units of work are all tiles of channels of the first part of the rows, then
/// those of the next.
struct ChannelTiling {
  /// Parts have about `part_rows` rows for each row that a block takes at once.
  ChannelTiling(std::int64_t row_count, std::int64_t channel_count, int pack, std::int64_t part_rows,
                std::int64_t max_parts)
      : rows(row_count), channels(channel_count) {
    constexpr std::int64_t max_across = 64;
    const std::int64_t packs = channels / pack;
    tiles = (packs + max_across - 1) / max_across;
    across = static_cast<int>(tiles == 0 ? 1 : (packs + tiles - 1) / tiles);
    down = block_threads / across;
    parts = std::clamp<std::int64_t>(rows / (down * part_rows), 1, std::max<std::int64_t>(1, max_parts));
  }
  std::int64_t units() const { return tiles * parts; }

  std::int64_t rows;
  std::int64_t channels;
  std::int64_t tiles = 0;
  std::int64_t parts = 0;
  int across = 1;  // packs of a tile
  int down = 1;    // rows at once
};

/// Channels that a thread has. Each of them takes several registers, and a thread that has few leaves room for others.
template <class T>
inline constexpr int pack_of = 16 / static_cast<int>(std::max(sizeof(T), sizeof(float)));

/// Blocks of a multiprocessor: with more of them, registers would not suffice.
inline constexpr int blocks_at_once = 3;

struct RowSizes {
  explicit RowSizes(const Tensor& x) : channels(x.shape().back()), rows(channels == 0 ? 0 : x.numel() / channels) {}
  std::int64_t channels;
  std::int64_t rows;
};

/// For kernels that map elements: enough rows per thread that the values of a channel are worth reading.
inline ChannelTiling map_tiling(const RowSizes& sizes, int pack) {
  ChannelTiling tiling(sizes.rows, sizes.channels, pack, 4, max_blocks);
  tiling.parts =
      std::min(tiling.parts, std::max<std::int64_t>(1, max_blocks / std::max<std::int64_t>(1, tiling.tiles)));
  return tiling;
}

/// For `sums` sums per channel whose parts fit the scratch: enough blocks to keep a large GPU busy.
inline ChannelTiling sum_tiling(const RowSizes& sizes, int pack, std::int64_t sums) {
  constexpr std::int64_t wanted = 1024;  // blocks
  constexpr std::int64_t doubles = Context::scratch_bytes / static_cast<std::int64_t>(sizeof(double));
  ChannelTiling tiling(sizes.rows, sizes.channels, pack, 16,
                       doubles / std::max<std::int64_t>(1, sums * sizes.channels));
  tiling.parts = std::min(tiling.parts, std::max<std::int64_t>(1, wanted / std::max<std::int64_t>(1, tiling.tiles)));
  return tiling;
}

/// The calling thread's share of a unit: the pack of channels from `channel` on in every few rows, which begins with
/// the elements `at`, `at + step`, .. below `until`.
template <int pack>
struct ChannelShare {
  __device__ ChannelShare(const ChannelTiling& tiling, std::int64_t unit)
      : part(unit / tiling.tiles),
        first_row(tiling.rows * part / tiling.parts),
        end(tiling.rows * (part + 1) / tiling.parts),
        channel((unit % tiling.tiles * tiling.across + static_cast<int>(threadIdx.x) % tiling.across) * pack),
        line(static_cast<int>(threadIdx.x) / tiling.across),
        has_channels(line < tiling.down && channel < tiling.channels),
        at((first_row + line) * tiling.channels + channel),
        until(has_channels ? end * tiling.channels : at),
        step(tiling.down * tiling.channels) {}
  std::int64_t part;
  std::int64_t first_row;  // of the part
  std::int64_t end;
  std::int64_t channel;
  int line;           // which of the rows that the block takes at once
  bool has_channels;  // else the thread has nothing to do
  std::int64_t at;
  std::int64_t until;
  std::int64_t step;
};

/// totals[s][e] = sum over the part's rows of what `add(at, read(at), run)` adds to run[s][e], in the thread of line 0
/// with these channels: in C over some rows, in f64 beyond, in an order that depends on the tiling only. Called by all
/// threads of the block.
template <class C, int batch, int sums, int pack, class Read, class Add>
__device__ void sum_part(const ChannelTiling& tiling, const ChannelShare<pack>& share, double (&totals)[sums][pack],
                         Read read, Add add) {
  constexpr int run_rows = 64;
  __shared__ double stage[sums * pack][block_threads];  // rather than in registers, of which there are too few
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 0; i < sums * pack; ++i) stage[i][thread] = 0;
  const std::int64_t stretch = run_rows * share.step;
  for (std::int64_t begin = share.at; begin < share.until; begin += stretch) {
    C run[sums][pack] = {};
    const std::int64_t end = begin + stretch < share.until ? begin + stretch : share.until;
    for_each_ahead<batch>(begin, end, share.step, read, [&](std::int64_t at, const auto& in) { add(at, in, run); });
    for (int s = 0; s < sums; ++s)
      for (int e = 0; e < pack; ++e) stage[s * pack + e][thread] += static_cast<double>(run[s][e]);
  }
  __syncthreads();
  for (int lines = tiling.down; lines > 1;) {
    const int half = (lines + 1) / 2;
    if (share.line + half < lines)
      for (int i = 0; i < sums * pack; ++i) stage[i][thread] += stage[i][thread + half * tiling.across];
    __syncthreads();
    lines = half;
  }
  for (int s = 0; s < sums; ++s)
    for (int e = 0; e < pack; ++e) totals[s][e] = stage[s * pack + e][thread];
  __syncthreads();  // before the next call writes
}

}  // namespace heddle::cuda
