#include "framework/backends/cuda/class_rows/gradient.cuh"
#include "framework/backends/cuda/context.h"
#include "framework/kernels/class_rows.h"

namespace heddle::cuda {

namespace {

/// The sum of squares of each row's gradient.
template <class C>
struct RowSquare {
  RowGradient<C> gradient;
  double* squares;

  __device__ void operator()(std::int64_t i, RowGroup group) const {
    const int columns = i >= 0 ? gradient.columns : 0;
    const int turns = group.turns(columns);
    const auto place_of = [&](int turn) { return Place::of(group, turn, 0, columns, gradient.are_packed); };
    HeldRow<C> kept;
    gradient.load(i, place_of(0), kept);
    const auto by = gradient.normalisation(i, group, kept);
    double sum = 0;
    for (int turn = 0; turn < turns; ++turn) {
      const Place place = place_of(turn);
      if (turns > 1) gradient.load(i, place, kept);
      for (int e = 0; e < held; ++e) {
        const auto value = static_cast<double>(gradient.of(kept, e, by));
        if (place.contains(place.at(e))) sum += value * value;
      }
    }
    sum = group.sum(sum);
    if (group.member == 0 && i >= 0) squares[i] = sum;
  }
};

/// total += values[0], values[1] and so on, one after the other: one thread of the block adds, all of them load.
__device__ void add_in_order(const double* values, std::int64_t count, double* total) {
  constexpr std::int64_t stretch = 8 * block_threads;
  __shared__ double brought[stretch];
  double sum = *total;
  for (std::int64_t begin = 0; begin < count; begin += stretch) {
    const std::int64_t length = count - begin < stretch ? count - begin : stretch;
    for_row(0, length, [&](std::int64_t i) { brought[i] = values[begin + i]; });
    __syncthreads();
    if (threadIdx.x == 0)
      for (std::int64_t i = 0; i < length; ++i) sum += brought[i];
    __syncthreads();
  }
  if (threadIdx.x == 0) *total = sum;
}

template <class C>
void add_squares(const Context& context, const RowGradient<C>& all, std::int64_t rows, double* total) {
  constexpr auto max_rows = static_cast<std::int64_t>(Context::scratch_bytes / sizeof(double));
  for (std::int64_t begin = 0; begin < rows; begin += max_rows) {
    const std::int64_t size = std::min(max_rows, rows - begin);
    double* const squares = context.scratch<double>(size);
    for_each_row_group(context, size, group_threads<C>(all.columns), RowSquare<C>{all.from(begin), squares});
    for_each_row(context, 1, [=] __device__(std::int64_t) { add_in_order(squares, size, total); });
  }
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ClassRowKernelsOn<cuda::Context>::add_squared_gradient(const Tensor& rows, const Tensor& inverse_norm,
                                                            const Tensor& products, double bound,
                                                            Tensor& result) const {
  cuda::visit_compute(rows, [&]<class C>(C) {
    const cuda::RowGradient<C> gradient(rows, inverse_norm, products, bound, 1);
    cuda::add_squares<C>(context_, gradient, rows.shape()[0], result.as<double>());
  });
}

}  // namespace heddle
