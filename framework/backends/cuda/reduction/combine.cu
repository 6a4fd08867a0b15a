// What a reduction over ranks computes: several tensors of one size, in order, into one or several results.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/kernels/reduction.h"

namespace heddle::cuda {

namespace {

/// As many as fit into the arguments of a kernel.
constexpr std::size_t max_tensors = 224;

template <class T>
struct Addresses {
  int parts = 0;
  int results = 0;
  T* at[max_tensors];  // the parts, then the results
};

template <Reduction reduction, class T>
void combine_as(const Context& context, std::span<const Tensor> parts, std::span<Tensor> results) {
  using C = Compute<T>;
  Addresses<T> addresses;
  for (const Tensor& part : parts) addresses.at[addresses.parts++] = part.as<T>();
  for (const Tensor& result : results) addresses.at[addresses.parts + addresses.results++] = result.as<T>();
  for_each(context, results[0].numel(), [=] __device__(std::int64_t i) {
    T total = addresses.at[0][i];
    for (int p = 1; p < addresses.parts; ++p) {
      const C a = static_cast<C>(total);
      const C b = static_cast<C>(addresses.at[p][i]);
      total = static_cast<T>(reduction == Reduction::sum ? a + b : b > a || b != b ? b : a);
    }
    for (int r = 0; r < addresses.results; ++r) addresses.at[addresses.parts + r][i] = total;
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void ReductionKernelsOn<cuda::Context>::combine(Reduction reduction, std::span<const Tensor> parts,
                                                std::span<Tensor> results) const {
  if (parts.size() + results.size() > cuda::max_tensors)
    fail<InputError>("cuda: {} ranks on one GPU are more than the {} whose values it adds at once", parts.size(),
                     cuda::max_tensors / 2);
  visit_floating(parts[0].dtype(), "combine", [&]<class T>(T) {
    if (reduction == Reduction::max)
      cuda::combine_as<Reduction::max, T>(context_, parts, results);
    else
      cuda::combine_as<Reduction::sum, T>(context_, parts, results);
  });
}

}  // namespace heddle
