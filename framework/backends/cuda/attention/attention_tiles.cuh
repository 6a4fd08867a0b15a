// How a block computes with some rows of scores, a few columns at a time: vectors, scores and weights lie in shared
// memory, where warps multiply tiles of them. Longer vectors than shared memory has room for come in parts.
#pragma once

#include "framework/backends/cuda/attention/attention_inputs.cuh"
#include "framework/backends/cuda/device/tile_products.cuh"

namespace heddle::cuda {

template <class T>
struct AttentionShape {
  using C = Compute<T>;
  /// Rows that a block has, columns that it computes at a time, and features of a vector in shared memory at a time.
  static constexpr int rows = 128 / static_cast<int>(sizeof(T));
  static constexpr int others = rows < 32 ? rows : 32;
  static constexpr int features = 64;
  /// From a row in shared memory to the next, 16 bytes off a multiple of all banks.
  static constexpr int stride = features + 16 / static_cast<int>(sizeof(T));
  static constexpr int score_stride = others + 16 / static_cast<int>(sizeof(C));
  static constexpr int weight_stride = others + 16 / static_cast<int>(sizeof(T));
  static constexpr int staged_stride = features + 16 / static_cast<int>(sizeof(C));
  /// The threads of a row, and the columns that each of them has.
  static constexpr int threads = block_threads / rows;
  static constexpr int columns = others / threads;

  static constexpr int warps = block_threads / warp_threads;
  static constexpr int strips = rows / tile_side;
  static constexpr int score_tiles = strips * (others / tile_side);
  static constexpr int sum_tiles = strips * (features / tile_side);
  static constexpr int sums_of_warp = (sum_tiles + warps - 1) / warps;
  static_assert(score_tiles <= warps);

  /// f(first, count) for tokens in groups of at most `others`.
  template <class F>
  __device__ static void for_each_others(std::int64_t tokens, F f) {
    for (std::int64_t first = 0; first < tokens; first += others)
      f(first, static_cast<int>(tokens - first < others ? tokens - first : others));
  }
};

/// For so many products of rows with others. Bytes, because shared memory has no constructors.
template <class T, int products>
struct AttentionMemory {
  using Shape = AttentionShape<T>;
  alignas(32) std::byte own[products][Shape::rows * Shape::stride * sizeof(T)];
  alignas(32) std::byte others[products][Shape::others * Shape::stride * sizeof(T)];
  alignas(32) std::byte scores[products][Shape::rows * Shape::score_stride * sizeof(Compute<T>)];
  static_assert(sizeof(T) * Shape::weight_stride <= sizeof(Compute<T>) * Shape::score_stride);
};

/// The rows of a block: those from `first` on of a pair of sample and head.
struct AttentionRows {
  std::int64_t pair;
  std::int64_t first;
  int count;

  __device__ AttentionRows(const Heads& heads, std::int64_t unit, int rows)
      : pair(unit / blocks(heads.tokens, rows)),
        first(unit % blocks(heads.tokens, rows) * rows),
        count(static_cast<int>(heads.tokens - first < rows ? heads.tokens - first : rows)) {}
  __host__ __device__ static std::int64_t blocks(std::int64_t tokens, int rows) { return (tokens + rows - 1) / rows; }
};

/// Weighted sums of vectors, one for each row of a block: features of them, as far as a warp has them.
template <class T>
struct WeightedSums {
  __device__ WeightedSums() {
    for (TileSums<T>& tile : tiles) tile.clear();
  }
  TileSums<T> tiles[AttentionShape<T>::sums_of_warp];
};

/// Rows of a block, and others that they are multiplied with.
template <class T>
struct VectorPair {
  VectorRows<T> own;
  VectorRows<T> others;
};

/// f(0), f(1) and so on, as constants: what they index stays in registers.
template <int count, class F>
__device__ void for_each_product(F f) {
  f(std::integral_constant<int, 0>{});
  if constexpr (count > 1) f(std::integral_constant<int, 1>{});
  static_assert(count <= 2);
}

/// All threads of a block call these functions together.
template <class T, int products>
class AttentionBlock {
 public:
  using C = Compute<T>;
  using Shape = AttentionShape<T>;
  using Columns = C[Shape::columns];

  __device__ AttentionBlock(AttentionMemory<T, products>& memory, int rows, int features)
      : memory_(memory), rows_(rows), features_(features) {}

  /// The row that the thread has a part of, and its first column.
  __device__ int row() const { return static_cast<int>(threadIdx.x) / Shape::threads; }
  __device__ int first_column() const { return static_cast<int>(threadIdx.x) % Shape::threads; }
  __device__ bool has_row() const { return row() < rows_; }
  __device__ bool is_first_of_row() const { return has_row() && first_column() == 0; }
  /// f(i, column) for the thread's columns below `count`.
  template <class F>
  __device__ void for_each_column(int count, F f) const {
    for (int i = 0; i < Shape::columns; ++i) {
      const int column = first_column() + i * Shape::threads;
      if (column < count) f(i, column);
    }
  }
  /// op over the threads of a row.
  template <class Op>
  __device__ C reduce_row(C value, Op op) const {
    for (int difference = Shape::threads / 2; difference > 0; difference /= 2)
      value = op(value, row_detail::of_other_lane(value, difference));
    return value;
  }

  /// values[p]: the products of the thread's row with `count` others, at its columns.
  __device__ void multiply(const VectorPair<T> (&pairs)[products], int count, Columns* const (&values)[products]) {
    TileSums<T> sums[products];
    for (TileSums<T>& tile : sums) tile.clear();
    for (int begin = 0; begin < features_; begin += Shape::features) {
      __syncthreads();  // what the memory had has been used
      for_each_product<products>([&](auto p) {
        load<Shape::rows>(pairs[p].own, rows_, begin, own_[p], own(p));
        load<Shape::others>(pairs[p].others, count, begin, others_[p], others(p));
      });
      __syncthreads();
      if (warp() >= Shape::score_tiles) continue;
      for_each_product<products>([&](auto p) {
        sums[p].template add<TileOrder::columns>(own(p) + strip(0) * tile_side * Shape::stride, Shape::stride,
                                                 others(p) + warp() / Shape::strips * tile_side * Shape::stride,
                                                 Shape::stride, depth(begin));
      });
    }
    if (warp() < Shape::score_tiles)
      for_each_product<products>([&](auto p) {
        sums[p].store(scores(p) + strip(0) * tile_side * Shape::score_stride + warp() / Shape::strips * tile_side,
                      Shape::score_stride);
      });
    __syncthreads();
    for_each_product<products>([&](auto p) {
      for (int i = 0; i < Shape::columns; ++i)
        (*values[p])[i] = scores(p)[row() * Shape::score_stride + first_column() + i * Shape::threads];
    });
  }

  /// result += the vectors' features from `begin` on, weighted by the weights that the thread has for its columns,
  /// which are rounded to T. `place` < products: those of one pair that was multiplied before are there already.
  __device__ void add_weighted(const Columns& weights, int place, const VectorRows<T>& vectors, int count, int begin,
                               WeightedSums<T>& result) {
    T* const narrow = reinterpret_cast<T*>(memory_.scores[place]);
    __syncthreads();  // scores have been read
    for (int i = 0; i < Shape::columns; ++i)
      narrow[row() * Shape::weight_stride + first_column() + i * Shape::threads] = static_cast<T>(weights[i]);
    load<Shape::others>(vectors, count, begin, others_[place], others(place));
    __syncthreads();
    for_each_tile(begin, result, [&](TileSums<T>& tile, int i) {
      tile.template add<TileOrder::rows>(narrow + strip(i) * tile_side * Shape::weight_stride, Shape::weight_stride,
                                         others(place) + first_feature(i), Shape::stride, Shape::others);
    });
  }

  /// to[row * step + feature] = factor * result, for the features from `begin` on.
  __device__ void store(const WeightedSums<T>& result, int begin, C factor, T* to, std::int64_t step) {
    static_assert(sizeof(C) * Shape::rows * Shape::staged_stride <= sizeof(AttentionMemory<T, products>));
    C* const staged = reinterpret_cast<C*>(&memory_);
    __syncthreads();
    for_each_tile(begin, result, [&](const TileSums<T>& tile, int i) {
      tile.store(staged + strip(i) * tile_side * Shape::staged_stride + first_feature(i), Shape::staged_stride);
    });
    __syncthreads();
    const int size = features_ - begin < Shape::features ? features_ - begin : Shape::features;
    for (int i = static_cast<int>(threadIdx.x); i < rows_ * Shape::features; i += block_threads) {
      const int at = i / Shape::features;
      const int feature = i % Shape::features;
      if (feature < size)
        to[at * step + begin + feature] = static_cast<T>(factor * staged[at * Shape::staged_stride + feature]);
    }
    for (int p = 0; p < products; ++p) own_[p] = others_[p] = nullptr;
  }

 private:
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / warp_threads; }
  /// Which sixteen rows, and which features, the i-th tile of a warp has.
  __device__ static int strip(int i) { return (warp() + i * Shape::warps) % Shape::strips; }
  __device__ static int first_feature(int i) { return (warp() + i * Shape::warps) / Shape::strips * tile_side; }
  /// The number of features from `begin` on that shared memory has, rounded up to whole tiles.
  __device__ int depth(int begin) const {
    const int left = features_ - begin < Shape::features ? features_ - begin : Shape::features;
    return (left + tile_side - 1) / tile_side * tile_side;
  }
  template <class Sums, class F>
  __device__ void for_each_tile(int begin, Sums& result, F f) const {
    for (int i = 0; i < Shape::sums_of_warp; ++i)
      if (first_feature(i) < depth(begin)) f(result.tiles[i], i);
  }

  __device__ T* own(int p) const { return reinterpret_cast<T*>(memory_.own[p]); }
  __device__ T* others(int p) const { return reinterpret_cast<T*>(memory_.others[p]); }
  __device__ C* scores(int p) const { return reinterpret_cast<C*>(memory_.scores[p]); }

  /// The features from `begin` on of `count` vectors, and zeros where there are none; nothing if they are there.
  template <int most>
  __device__ void load(const VectorRows<T>& from, int count, int begin, const T*& loaded, T* to) const {
    constexpr int pack = 16 / static_cast<int>(sizeof(T));
    constexpr int packs = Shape::features / pack;
    const T* const first = from.at + begin;
    if (loaded == first) return;
    loaded = first;
    for (int i = static_cast<int>(threadIdx.x); i < most * packs; i += block_threads) {
      const int at = i / packs;
      const int feature = i % packs * pack;
      const int left = at < count ? features_ - begin - feature : 0;
      cuda::store(to + at * Shape::stride + feature,
                  load_some<pack>(first + at * from.step + feature, left < pack ? left : pack));
    }
  }

  AttentionMemory<T, products>& memory_;
  int rows_;
  int features_;
  const T* own_[products] = {};  // whose features are there
  const T* others_[products] = {};
};

}  // namespace heddle::cuda
