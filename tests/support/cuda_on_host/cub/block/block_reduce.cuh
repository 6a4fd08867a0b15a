// CUB's reduction over the threads of a block, as far as it is used.
#pragma once

#include <cuda_runtime.h>

namespace cub {

template <class T, int threads>
class BlockReduce {
 public:
  struct TempStorage {
    T at[threads];
  };

  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  /// The result is thread 0's.
  template <class Op>
  T Reduce(T value, Op op) {
    storage_.at[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 1; i < threads; ++i) value = op(value, storage_.at[i]);
    return value;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
