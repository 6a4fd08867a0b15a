// Products of tiles of 16 x 16 elements in shared memory, each by one warp: on tensor cores where elements have 16
// bits.
#pragma once

#include <mma.h>

#include "framework/backends/cuda/device/row_teams.cuh"

namespace heddle::cuda {

/// The side of a tile.
inline constexpr int tile_side = 16;

/// How the second factor lies in memory.
enum class TileOrder { rows, columns };

/// Sums of products, a tile of them. All threads of a warp call its functions together. Matrices begin at multiples of
/// 32 bytes, and so do their sixteenth rows and columns.
template <class T>
class TileSums {
 public:
  using C = Compute<T>;

  __device__ void clear() {
    for (C& sum : sums_) sum = 0;
  }
  /// sums += a b. a [16, depth] has rows of `a_stride`; b [depth, 16] has rows, or columns, of `b_stride`. The depth is
  /// a multiple of 16.
  template <TileOrder order>
  __device__ void add(const T* a, int a_stride, const T* b, int b_stride, int depth) {
    for (int k = 0; k < depth; ++k) {
      const C left = a[row() * a_stride + k];
      for (int i = 0; i < columns; ++i) {
        const int column = first_column() + i;
        const C right = order == TileOrder::rows ? b[k * b_stride + column] : b[column * b_stride + k];
        sums_[i] += left * right;
      }
    }
  }
  /// to [16, 16] has rows of `stride`.
  __device__ void store(C* to, int stride) const {
    for (int i = 0; i < columns; ++i) to[row() * stride + first_column() + i] = sums_[i];
  }

 private:
  static constexpr int columns = tile_side * tile_side / warp_threads;
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % warp_threads; }
  __device__ static int row() { return lane() / 2; }
  __device__ static int first_column() { return lane() % 2 * columns; }

  C sums_[columns];
};

namespace tile_detail {

template <class Element>
class NarrowTileSums {
 public:
  __device__ void clear() { nvcuda::wmma::fill_fragment(sums_, 0.0F); }
  template <TileOrder order, class T>
  __device__ void add(const T* a, int a_stride, const T* b, int b_stride, int depth) {
    namespace wmma = nvcuda::wmma;
    using Order = std::conditional_t<order == TileOrder::rows, wmma::row_major, wmma::col_major>;
    wmma::fragment<wmma::matrix_a, tile_side, tile_side, tile_side, Element, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, tile_side, tile_side, tile_side, Element, Order> right;
    for (int k = 0; k < depth; k += tile_side) {
      wmma::load_matrix_sync(left, reinterpret_cast<const Element*>(a + k), static_cast<unsigned>(a_stride));
      const T* const part = b + (order == TileOrder::rows ? k * b_stride : k);
      wmma::load_matrix_sync(right, reinterpret_cast<const Element*>(part), static_cast<unsigned>(b_stride));
      wmma::mma_sync(sums_, left, right, sums_);
    }
  }
  __device__ void store(float* to, int stride) const {
    nvcuda::wmma::store_matrix_sync(to, sums_, static_cast<unsigned>(stride), nvcuda::wmma::mem_row_major);
  }

 private:
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, tile_side, tile_side, tile_side, float> sums_;
};

}  // namespace tile_detail

template <>
class TileSums<BFloat16> : public tile_detail::NarrowTileSums<__nv_bfloat16> {};
template <>
class TileSums<Float16> : public tile_detail::NarrowTileSums<__half> {};

}  // namespace heddle::cuda
