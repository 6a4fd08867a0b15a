// What <mma.h> declares of products of 16 x 16 tiles by a warp, on a machine without a GPU. Each thread keeps what its
// share of the sums needs: half a row of them.
#pragma once

#include <cstdint>

#include "framework/tensors/dtype.h"
#include "tests/support/cuda_on_host/cuda_runtime.h"

struct __nv_bfloat16 {
  heddle::BFloat16 value;
};
struct __half {
  heddle::Float16 value;
};

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

constexpr int columns_of_thread = 8;
inline int row_of_thread() {
  return static_cast<int>(threadIdx.x % 32) / 2;
}
inline int first_column_of_thread() {
  return static_cast<int>(threadIdx.x % 2) * columns_of_thread;
}

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment;
template <class T>
struct fragment<matrix_a, 16, 16, 16, T, row_major> {
  float row[16];
};
template <class T, class Layout>
struct fragment<matrix_b, 16, 16, 16, T, Layout> {
  float columns[columns_of_thread][16];
};
template <>
struct fragment<accumulator, 16, 16, 16, float> {
  float sums[columns_of_thread];
};

using Sums = fragment<accumulator, 16, 16, 16, float>;

inline void fill_fragment(Sums& sums, float value) {
  for (float& sum : sums.sums) sum = value;
}
template <class T>
void load_matrix_sync(fragment<matrix_a, 16, 16, 16, T, row_major>& a, const T* from, unsigned stride) {
  for (int i = 0; i < 16; ++i) a.row[i] = from[static_cast<unsigned>(row_of_thread()) * stride + i].value;
}
template <class T>
void load_matrix_sync(fragment<matrix_b, 16, 16, 16, T, row_major>& b, const T* from, unsigned stride) {
  for (unsigned i = 0; i < 16; ++i)
    for (int c = 0; c < columns_of_thread; ++c) b.columns[c][i] = from[i * stride + first_column_of_thread() + c].value;
}
template <class T>
void load_matrix_sync(fragment<matrix_b, 16, 16, 16, T, col_major>& b, const T* from, unsigned stride) {
  for (int c = 0; c < columns_of_thread; ++c)
    for (int i = 0; i < 16; ++i)
      b.columns[c][i] = from[static_cast<unsigned>(first_column_of_thread() + c) * stride + i].value;
}
template <class T, class Layout>
void mma_sync(Sums& d, const fragment<matrix_a, 16, 16, 16, T, row_major>& a,
              const fragment<matrix_b, 16, 16, 16, T, Layout>& b, const Sums& c) {
  for (int column = 0; column < columns_of_thread; ++column) {
    float sum = c.sums[column];
    for (int i = 0; i < 16; ++i) sum += a.row[i] * b.columns[column][i];
    d.sums[column] = sum;
  }
}
inline void store_matrix_sync(float* to, const Sums& sums, unsigned stride, layout_t /*order*/) {
  for (int c = 0; c < columns_of_thread; ++c)
    to[static_cast<unsigned>(row_of_thread()) * stride + first_column_of_thread() + c] = sums.sums[c];
}

}  // namespace nvcuda::wmma
