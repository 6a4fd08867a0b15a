#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/draws.cuh"
#include "framework/backends/cuda/device/sums.cuh"
#include "framework/kernels/training.h"

namespace heddle::cuda {

namespace {

/// y = low + scale * draw, in f64.
template <class Draws, class T>
void fill_drawn(const Context& context, Tensor& y, const DrawKey& key, const DrawWindow& window, double low,
                double scale) {
  constexpr int size = Draws::of_block;
  using Values = Pack<typename Draws::Value, size>;
  T* const to = y.as<T>();
  for_each_draw<Draws>(context, y.numel(), key, window,
                       [=] __device__(std::int64_t i, const Values& draws, int length) {
                         Pack<T, size> out;
                         for (int e = 0; e < size; ++e)
                           out.at[e] = static_cast<T>(static_cast<Compute<T>>(low + scale * draws.at[e]));
                         store_some(to + i, out, length);
                       });
}

template <class T>
void dropout_as(const Context& context, const Tensor& x, const DrawKey& key, const DrawWindow& window,
                double probability, Tensor& y) {
  using C = Compute<T>;
  constexpr int size = UniformDraws::of_block;
  const T* const from = x.as<const T>();
  T* const to = y.as<T>();
  const auto limit = static_cast<float>(probability);
  const auto factor = static_cast<C>(1 / (1 - probability));
  for_each_draw<UniformDraws>(context, x.numel(), key, window,
                              [=] __device__(std::int64_t i, const Pack<float, size>& draws, int length) {
                                Pack<T, size> values = load_some<size>(from + i, length);
                                for (int e = 0; e < size; ++e) {
                                  const C scaled = static_cast<C>(values.at[e]) * factor;
                                  values.at[e] = static_cast<T>(draws.at[e] >= limit ? scaled : C(0));
                                }
                                store_some(to + i, values, length);
                              });
}

template <class T>
void add_squares(const Context& context, const Tensor& x, Tensor& result) {
  const T* const from = x.as<const T>();
  double* const to = result.as<double>();
  sum_rows(
      context, 1, x.numel(),
      [=] __device__(std::int64_t, std::int64_t i) {
        const auto value = static_cast<double>(static_cast<Compute<T>>(from[i]));
        return value * value;
      },
      [=] __device__(std::int64_t, double sum) { *to += sum; });
}

template <class T>
void clamp_as(const Context& context, Tensor& x, double bound) {
  using C = Compute<T>;
  const auto limit = static_cast<C>(bound);
  map(
      context, x.numel(), x.as<T>(),
      [=] __device__(C value) { return value > limit    ? limit
                                       : value < -limit ? -limit
                                                        : value; }, x.as<const T>());
}

template <int pack, class T, class F, class... States>
__global__ void update_kernel(std::int64_t count, const T* gradients, T* weights, F f, States*... states) {
  const std::int64_t stride = std::int64_t{gridDim.x} * block_threads;
  const std::int64_t first = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  const auto one = [&](const T& gradient, const T& weight, States&... kept) {
    return static_cast<T>(f(static_cast<Compute<T>>(gradient), static_cast<Compute<T>>(weight), kept...));
  };
  // All is read before any is written, so that accesses are as wide as a pack.
  const auto several = [&](std::int64_t i, const Pack<T, pack> gradient, Pack<T, pack> weight,
                           Pack<States, pack>... kept) {
    for (int e = 0; e < pack; ++e) weight.at[e] = one(gradient.at[e], weight.at[e], kept.at[e]...);
    reinterpret_cast<Pack<T, pack>*>(weights)[i] = weight;
    ((reinterpret_cast<Pack<States, pack>*>(states)[i] = kept), ...);
  };
  const std::int64_t packs = count / pack;
  for (std::int64_t i = first; i < packs; i += stride)
    several(i, reinterpret_cast<const Pack<T, pack>*>(gradients)[i], reinterpret_cast<const Pack<T, pack>*>(weights)[i],
            reinterpret_cast<const Pack<States, pack>*>(states)[i]...);
  for (std::int64_t i = packs * pack + first; i < count; i += stride)
    weights[i] = one(gradients[i], weights[i], states[i]...);
}

/// weight = f(gradient, weight, state..), which changes the states.
template <class T, class F, class... States>
void update(const Context& context, const Tensor& gradient, Tensor& weight, F f, States*... states) {
  constexpr int pack = 16 / static_cast<int>(sizeof(Compute<T>));
  const std::int64_t count = weight.numel();
  const T* const gradients = gradient.as<const T>();
  T* const weights = weight.as<T>();
  const std::int64_t blocks = (count + block_threads * pack - 1) / (block_threads * pack);
  if (count == 0) return;
  if (is_pack<pack>(gradients) && is_pack<pack>(weights) && (is_pack<pack>(states) && ...))
    launch(context, blocks, update_kernel<pack, T, F, States...>, count, gradients, weights, f, states...);
  else
    launch(context, blocks * pack, update_kernel<1, T, F, States...>, count, gradients, weights, f, states...);
}

template <class T>
void sgd_as(const Context& context, const SgdStep& step, const Tensor& gradient, Tensor& weight, Tensor& velocity) {
  using C = Compute<T>;
  const SgdUpdate<C> rule(step);
  if (velocity.defined())
    update<T>(context, gradient, weight, rule, velocity.as<C>());
  else
    update<T>(context, gradient, weight,
              [=] __device__(C slope, C value) { return rule.without_momentum(slope, value); });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void TrainingKernelsOn<cuda::Context>::fill_normal(Tensor& y, const DrawKey& key, const DrawWindow& window, double mean,
                                                   double deviation) const {
  visit_floating(y.dtype(), "fill_normal", [&]<class T>(T) {
    cuda::fill_drawn<cuda::NormalDraws, T>(context_, y, key, window, mean, deviation);
  });
}

template <>
void TrainingKernelsOn<cuda::Context>::fill_uniform(Tensor& y, const DrawKey& key, const DrawWindow& window, double low,
                                                    double high) const {
  visit_floating(y.dtype(), "fill_uniform", [&]<class T>(T) {
    cuda::fill_drawn<cuda::UniformDraws, T>(context_, y, key, window, low, high - low);
  });
}

template <>
void TrainingKernelsOn<cuda::Context>::dropout(const Tensor& x, const DrawKey& key, const DrawWindow& window,
                                               double probability, Tensor& y) const {
  visit_floating(x.dtype(), "dropout",
                 [&]<class T>(T) { cuda::dropout_as<T>(context_, x, key, window, probability, y); });
}

template <>
void TrainingKernelsOn<cuda::Context>::add_squared_norm(const Tensor& x, Tensor& result) const {
  visit_floating(x.dtype(), "add_squared_norm", [&]<class T>(T) { cuda::add_squares<T>(context_, x, result); });
}

template <>
void TrainingKernelsOn<cuda::Context>::clamp(Tensor& x, double bound) const {
  visit_floating(x.dtype(), "clamp", [&]<class T>(T) { cuda::clamp_as<T>(context_, x, bound); });
}

template <>
void TrainingKernelsOn<cuda::Context>::sgd(const SgdStep& step, const Tensor& gradient, Tensor& weight,
                                           Tensor& velocity) const {
  visit_floating(weight.dtype(), "sgd",
                 [&]<class T>(T) { cuda::sgd_as<T>(context_, step, gradient, weight, velocity); });
}

template <>
void TrainingKernelsOn<cuda::Context>::adamw(const AdamWStep& step, const Tensor& gradient, Tensor& weight,
                                             Tensor& mean, Tensor& square) const {
  visit_floating(weight.dtype(), "adamw", [&]<class T>(T) {
    using C = Compute<T>;
    cuda::update<T>(context_, gradient, weight, AdamWUpdate<C>(step), mean.as<C>(), square.as<C>());
  });
}

}  // namespace heddle
