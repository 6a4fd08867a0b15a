#include <algorithm>
#include <array>
#include <vector>

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

template <class C>
struct PlainSgd {
  SgdUpdate<C> update;
  __device__ C operator()(C gradient, C weight) const { return update.without_momentum(gradient, weight); }
};

/// Weights that one launch steps (multi-tensor apply), with `states` tensors of optimizer state each. It is a kernel's
/// argument, and stays within the 4 KiB that every GPU takes.
template <class T, class Update, int states>
struct StepList {
  using C = Compute<T>;
  static constexpr int pack = 16 / static_cast<int>(sizeof(C));
  struct Entry {
    std::int64_t count;
    const T* gradient;
    T* weight;
    C* state[states > 0 ? states : 1];
    Update update;
    int first_block, blocks;
    bool is_packed;
  };
  static constexpr int capacity = (4096 - static_cast<int>(alignof(Entry))) / static_cast<int>(sizeof(Entry));

  int size = 0;
  Entry entries[capacity];

  void add(const Update& update, const Tensor& gradient, const Tensor& weight, const std::array<Tensor, states>& kept) {
    if (weight.numel() == 0) return;
    Entry& entry = entries[size++];
    entry = {.count = weight.numel(),
             .gradient = gradient.as<const T>(),
             .weight = weight.as<T>(),
             .state = {},
             .update = update,
             .first_block = 0,
             .blocks = 0,
             .is_packed = true};
    for (int i = 0; i < states; ++i) {
      entry.state[i] = kept[static_cast<std::size_t>(i)].template as<C>();
      entry.is_packed = entry.is_packed && is_pack<pack>(entry.state[i]);
    }
    entry.is_packed = entry.is_packed && is_pack<pack>(entry.gradient) && is_pack<pack>(entry.weight);
  }
  /// Shares the blocks of a launch among the weights by their sizes, at least one for each. Returns their number.
  std::int64_t share_blocks() {
    std::int64_t total = 0;
    for (int i = 0; i < size; ++i) total += entries[i].count;
    std::int64_t blocks = 0;
    for (int i = 0; i < size; ++i) {
      Entry& entry = entries[i];
      const std::int64_t per_block = block_threads * (entry.is_packed ? pack : 1);
      const std::int64_t useful = (entry.count + per_block - 1) / per_block;
      const double share = static_cast<double>(entry.count) / static_cast<double>(total);
      entry.first_block = static_cast<int>(blocks);
      entry.blocks = static_cast<int>(
          std::min(useful, 1 + static_cast<std::int64_t>(share * static_cast<double>(max_blocks - size))));
      blocks += entry.blocks;
    }
    return blocks;
  }
  /// Which entry the block belongs to.
  __device__ int entry_of(int block) const {
    int begin = 0;
    for (int end = size; end - begin > 1;) {
      const int middle = (begin + end) / 2;
      (block < entries[middle].first_block ? end : begin) = middle;
    }
    return begin;
  }
};

/// The new value of a weight; `state` changes.
template <int states, class T, class Update, class C>
__device__ T stepped(const Update& update, T gradient, T weight, C* state) {
  const auto g = static_cast<C>(gradient);
  const auto w = static_cast<C>(weight);
  if constexpr (states == 0)
    return static_cast<T>(update(g, w));
  else if constexpr (states == 1)
    return static_cast<T>(update(g, w, state[0]));
  else
    return static_cast<T>(update(g, w, state[0], state[1]));
}

template <class T, class Update, int states>
__global__ void step_kernel(const __grid_constant__ StepList<T, Update, states> list) {
  using C = Compute<T>;
  constexpr int kept_states = states > 0 ? states : 1;
  constexpr int pack = StepList<T, Update, states>::pack;
  const auto block = static_cast<int>(blockIdx.x);
  const auto& entry = list.entries[list.entry_of(block)];
  const Update update = entry.update;
  const std::int64_t stride = std::int64_t{entry.blocks} * block_threads;
  const std::int64_t first = std::int64_t{block - entry.first_block} * block_threads + threadIdx.x;
  const std::int64_t packs = entry.is_packed ? entry.count / pack : 0;
  for (std::int64_t i = first; i < packs; i += stride) {
    // All is read before any is written, so that accesses are as wide as a pack.
    const Pack<T, pack> gradient = load<pack>(entry.gradient + i * pack);
    Pack<T, pack> weight = load<pack>(entry.weight + i * pack);
    Pack<C, pack> kept[kept_states];
    for (int s = 0; s < states; ++s) kept[s] = load<pack>(entry.state[s] + i * pack);
    for (int e = 0; e < pack; ++e) {
      C state[kept_states];
      for (int s = 0; s < states; ++s) state[s] = kept[s].at[e];
      weight.at[e] = stepped<states>(update, gradient.at[e], weight.at[e], state);
      for (int s = 0; s < states; ++s) kept[s].at[e] = state[s];
    }
    store(entry.weight + i * pack, weight);
    for (int s = 0; s < states; ++s) store(entry.state[s] + i * pack, kept[s]);
  }
  for (std::int64_t i = packs * pack + first; i < entry.count; i += stride) {
    C state[kept_states];
    for (int s = 0; s < states; ++s) state[s] = entry.state[s][i];
    entry.weight[i] = stepped<states>(update, entry.gradient[i], entry.weight[i], state);
    for (int s = 0; s < states; ++s) entry.state[s][i] = state[s];
  }
}

/// add(list, weight) for each of those weights that have the type T, with a launch whenever a list is full.
template <class T, class Update, int states, class Weights, class Add>
void step_all(const Context& context, const Weights& weights, DType type, Add add) {
  using List = StepList<T, Update, states>;
  static_assert(sizeof(List) <= 4096);
  List list;
  const auto step = [&] {
    if (const std::int64_t blocks = list.share_blocks(); blocks > 0)
      launch(context, blocks, step_kernel<T, Update, states>, list);
    list.size = 0;
  };
  for (const auto& each : weights) {
    if (each.weight.dtype() != type) continue;
    add(list, each);
    if (list.size == List::capacity) step();
  }
  step();
}

template <class T>
void sgd_as(const Context& context, std::span<const SgdWeight> weights, DType type) {
  using C = Compute<T>;
  std::vector<SgdWeight> plain, with_velocity;
  for (const SgdWeight& each : weights) (each.velocity.defined() ? with_velocity : plain).push_back(each);
  step_all<T, PlainSgd<C>, 0>(context, plain, type, [](auto& list, const SgdWeight& each) {
    list.add({SgdUpdate<C>(each.step)}, each.gradient, each.weight, {});
  });
  step_all<T, SgdUpdate<C>, 1>(context, with_velocity, type, [](auto& list, const SgdWeight& each) {
    list.add(SgdUpdate<C>(each.step), each.gradient, each.weight, {each.velocity});
  });
}

template <class T>
void adamw_as(const Context& context, std::span<const AdamWWeight> weights, DType type) {
  using C = Compute<T>;
  step_all<T, AdamWUpdate<C>, 2>(context, weights, type, [](auto& list, const AdamWWeight& each) {
    list.add(AdamWUpdate<C>(each.step), each.gradient, each.weight, {each.mean, each.square});
  });
}

/// use(type) for each type that the weights have, once.
template <class Weights, class F>
void for_each_type(const Weights& weights, F use) {
  std::vector<DType> types;
  for (const auto& each : weights)
    if (std::find(types.begin(), types.end(), each.weight.dtype()) == types.end()) types.push_back(each.weight.dtype());
  for (const DType type : types) use(type);
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
void TrainingKernelsOn<cuda::Context>::sgd(std::span<const SgdWeight> weights) const {
  cuda::for_each_type(weights, [&](DType type) {
    visit_floating(type, "sgd", [&]<class T>(T) { cuda::sgd_as<T>(context_, weights, type); });
  });
}

template <>
void TrainingKernelsOn<cuda::Context>::adamw(std::span<const AdamWWeight> weights) const {
  cuda::for_each_type(weights, [&](DType type) {
    visit_floating(type, "adamw", [&]<class T>(T) { cuda::adamw_as<T>(context_, weights, type); });
  });
}

}  // namespace heddle
