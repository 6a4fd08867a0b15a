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

/// The rule of sgd without momentum.
template <class C>
struct PlainSgd {
  SgdUpdate<C> rule;
  __device__ C operator()(C gradient, C weight) const { return rule.without_momentum(gradient, weight); }
};

/// Weights that one launch steps, with so many tensors of optimizer state each. The list is a kernel's argument, for
/// which there are 4 KiB.
template <class T, class Rule, int states>
struct StepList {
  using C = Compute<T>;
  static constexpr int pack = 16 / static_cast<int>(sizeof(C));
  struct Entry {
    std::int64_t count;
    const T* gradient;
    T* weight;
    C* state[states > 0 ? states : 1];
    Rule rule;
    int first_block, blocks;
    bool is_packed;
  };
  static constexpr int capacity = (4096 - 64) / static_cast<int>(sizeof(Entry));

  int size = 0;
  Entry entries[capacity];

  void add(const Rule& rule, const Tensor& gradient, const Tensor& weight, const std::array<Tensor, states>& kept) {
    if (weight.numel() == 0) return;
    Entry& entry = entries[size++];
    entry = {.count = weight.numel(),
             .gradient = gradient.as<const T>(),
             .weight = weight.as<T>(),
             .state = {},
             .rule = rule,
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
      const std::int64_t of_block = block_threads * (entry.is_packed ? pack : 1);
      const std::int64_t useful = (entry.count + of_block - 1) / of_block;
      const double share = static_cast<double>(entry.count) / static_cast<double>(total);
      entry.first_block = static_cast<int>(blocks);
      entry.blocks = static_cast<int>(
          std::min(useful, 1 + static_cast<std::int64_t>(share * static_cast<double>(max_blocks - size))));
      blocks += entry.blocks;
    }
    return blocks;
  }
};

/// weight = rule(gradient, weight, state..), which changes the state.
template <class T, class Rule, int states>
__global__ void step_kernel(const StepList<T, Rule, states> list) {
  using C = Compute<T>;
  constexpr int pack = StepList<T, Rule, states>::pack;
  int index = 0;
  while (index + 1 < list.size && static_cast<int>(blockIdx.x) >= list.entries[index + 1].first_block) ++index;
  const auto& entry = list.entries[index];
  const std::int64_t stride = std::int64_t{entry.blocks} * block_threads;
  const std::int64_t first =
      std::int64_t{static_cast<int>(blockIdx.x) - entry.first_block} * block_threads + threadIdx.x;
  const auto stepped = [&](const T& gradient, const T& weight, C* state, int distance) {
    const auto g = static_cast<C>(gradient);
    const auto w = static_cast<C>(weight);
    if constexpr (states == 0)
      return static_cast<T>(entry.rule(g, w));
    else if constexpr (states == 1)
      return static_cast<T>(entry.rule(g, w, state[0]));
    else
      return static_cast<T>(entry.rule(g, w, state[0], state[distance]));
  };
  const std::int64_t packs = entry.is_packed ? entry.count / pack : 0;
  for (std::int64_t i = first; i < packs; i += stride) {
    // All is read before any is written, so that accesses are as wide as a pack.
    const Pack<T, pack> gradient = load<pack>(entry.gradient + i * pack);
    Pack<T, pack> weight = load<pack>(static_cast<const T*>(entry.weight) + i * pack);
    Pack<C, pack> kept[states > 0 ? states : 1];
    for (int s = 0; s < states; ++s) kept[s] = load<pack>(static_cast<const C*>(entry.state[s]) + i * pack);
    for (int e = 0; e < pack; ++e) weight.at[e] = stepped(gradient.at[e], weight.at[e], &kept[0].at[e], pack);
    store(entry.weight + i * pack, weight);
    for (int s = 0; s < states; ++s) store(entry.state[s] + i * pack, kept[s]);
  }
  for (std::int64_t i = packs * pack + first; i < entry.count; i += stride) {
    C kept[states > 0 ? states : 1];
    for (int s = 0; s < states; ++s) kept[s] = entry.state[s][i];
    entry.weight[i] = stepped(entry.gradient[i], entry.weight[i], kept, 1);
    for (int s = 0; s < states; ++s) entry.state[s][i] = kept[s];
  }
}

/// add(list, weight) for each of those weights that have the type T, with a launch whenever a list is full.
template <class T, class Rule, int states, class Weights, class Add>
void step_all(const Context& context, const Weights& weights, DType type, Add add) {
  using List = StepList<T, Rule, states>;
  static_assert(sizeof(List) <= 4096);
  List list;
  const auto step = [&] {
    if (const std::int64_t blocks = list.share_blocks(); blocks > 0)
      launch(context, blocks, step_kernel<T, Rule, states>, list);
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

/// use(type) for each type that the weights have.
template <class Weights, class F>
void for_types(const Weights& weights, F use) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
    if (std::any_of(weights.begin(), weights.end(), [type](const auto& w) { return w.weight.dtype() == type; }))
      use(type);
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
  cuda::for_types(weights, [&](DType type) {
    visit_floating(type, "sgd", [&]<class T>(T) { cuda::sgd_as<T>(context_, weights, type); });
  });
}

template <>
void TrainingKernelsOn<cuda::Context>::adamw(std::span<const AdamWWeight> weights) const {
  cuda::for_types(weights, [&](DType type) {
    visit_floating(type, "adamw", [&]<class T>(T) { cuda::adamw_as<T>(context_, weights, type); });
  });
}

}  // namespace heddle
