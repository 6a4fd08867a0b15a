#include "framework/backends/cuda/device/block.cuh"
#include "framework/backends/cuda/rows/indices.h"

namespace heddle::cuda {

void check_indices(const Context& context, Fault::Of of, const std::int64_t* index, std::int64_t count,
                   std::int64_t rows) {
  if (count == 0) return;
  Fault* const fault = context.fault();
  // One block, whose threads ask for several indices at once.
  for_each_row(context, 1, [=] __device__(std::int64_t) {
    constexpr int together = 8;
    std::int64_t first = count;
    for (std::int64_t begin = threadIdx.x; begin < count; begin += together * block_threads) {
      std::int64_t found[together];
      for (int e = 0; e < together; ++e) {
        const std::int64_t i = begin + e * block_threads;
        found[e] = i < count ? index[i] : 0;
      }
      for (int e = together - 1; e >= 0; --e) {
        const std::int64_t i = begin + e * block_threads;
        if (i < first && (found[e] < 0 || found[e] >= rows)) first = i;
      }
    }
    first = block_reduce(first, [](std::int64_t a, std::int64_t b) { return b < a ? b : a; });
    if (threadIdx.x == 0 && first < count && fault->of == Fault::Of::nothing) *fault = {of, first, index[first], rows};
  });
}

}  // namespace heddle::cuda
