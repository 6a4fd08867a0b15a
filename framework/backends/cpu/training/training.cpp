#include "framework/kernels/training.h"

#include <array>
#include <cmath>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/loops/assign.h"
#include "framework/backends/cpu/loops/draws.h"
#include "framework/backends/cpu/loops/sums.h"

namespace heddle::cpu {

namespace {

/// Calls body(i, stop, element) for the runs of a window that elements begin .. end-1 of a block lie in: i .. stop-1
/// are the global elements from `element` on.
template <class F>
void for_runs(std::int64_t begin, std::int64_t end, const DrawWindow& window, F body) {
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t row = i / window.run;
    const std::int64_t in_run = i - row * window.run;
    const std::int64_t stop = end - i < window.run - in_run ? end : i + window.run - in_run;
    body(i, stop, window.first + row * window.stride + in_run);
    i = stop;
  }
}

/// Calls body(begin, end, draws) for stretches of 0 .. count-1; draws[i - begin] is element i's, made by
/// draw(element, count, draws) for the global elements from `element` on. The draws come first and by themselves, so
/// that both loops can be made vectors of.
template <class T, class Draw, class F>
void for_draws(std::int64_t count, const DrawWindow& window, Draw draw, F body) {
  parallel_for(count, default_grain / 8, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t stretch = 512;
    std::array<T, stretch> draws;
    for_runs(begin, end, window, [&](std::int64_t i, std::int64_t run_end, std::int64_t element) {
      while (i < run_end) {
        // Stretches end where groups of draws do, so that only the ends of a run waste some.
        const std::int64_t stop = std::min(run_end, i + stretch - element % stretch);
        draw(element, stop - i, draws.data());
        body(i, stop, static_cast<const T*>(draws.data()));
        element += stop - i;
        i = stop;
      }
    });
  });
}

template <class F>
void for_uniform_draws(std::int64_t count, const DrawWindow& window, const DrawKey& key, F body) {
  const DrawStream stream(key);
  for_draws<float>(
      count, window,
      [&](std::int64_t element, std::int64_t length, float* draws) { stream.uniforms(element, length, draws); }, body);
}

template <class T>
void sgd_as(const SgdWeight& stepped) {
  using C = Compute<T>;
  const SgdUpdate<C> update(stepped.step);
  const T* const g = stepped.gradient.as<const T>();
  T* const w = stepped.weight.as<T>();
  C* const v = stepped.velocity.defined() ? stepped.velocity.as<C>() : nullptr;
  parallel_for(stepped.weight.numel(), default_grain / 2, [=](std::int64_t begin, std::int64_t end) {
    if (v == nullptr) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        assign(w[i], update.without_momentum(static_cast<C>(g[i]), static_cast<C>(w[i])));
      return;
    }
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      C kept = v[i];
      assign(w[i], update(static_cast<C>(g[i]), static_cast<C>(w[i]), kept));
      v[i] = kept;
    }
  });
}

template <class T>
void adamw_as(const AdamWWeight& stepped) {
  using C = Compute<T>;
  const AdamWUpdate<C> update(stepped.step);
  const T* const g = stepped.gradient.as<const T>();
  T* const w = stepped.weight.as<T>();
  C* const m = stepped.mean.as<C>();
  C* const s = stepped.square.as<C>();
  parallel_for(stepped.weight.numel(), default_grain / 4, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      C first = m[i];
      C second = s[i];
      assign(w[i], update(static_cast<C>(g[i]), static_cast<C>(w[i]), first, second));
      m[i] = first;
      s[i] = second;
    }
  });
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void TrainingKernelsOn<cpu::Context>::fill_normal(Tensor& y, const DrawKey& key, const DrawWindow& window, double mean,
                                                  double deviation) const {
  visit_floating(y.dtype(), "fill_normal", [&]<class T>(T) {
    T* const to = y.as<T>();
    const cpu::DrawStream stream(key);
    cpu::for_draws<double>(
        y.numel(), window,
        [&](std::int64_t element, std::int64_t length, double* draws) { stream.normals(element, length, draws); },
        [=](std::int64_t begin, std::int64_t end, const double* draws) {
          for (std::int64_t i = begin; i < end; ++i)
            to[i] = static_cast<T>(static_cast<Compute<T>>(mean + deviation * draws[i - begin]));
        });
  });
}

template <>
void TrainingKernelsOn<cpu::Context>::fill_uniform(Tensor& y, const DrawKey& key, const DrawWindow& window, double low,
                                                   double high) const {
  visit_floating(y.dtype(), "fill_uniform", [&]<class T>(T) {
    T* const to = y.as<T>();
    cpu::for_uniform_draws(y.numel(), window, key, [=](std::int64_t begin, std::int64_t end, const float* draws) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = static_cast<T>(static_cast<Compute<T>>(low + (high - low) * draws[i - begin]));
    });
  });
}

template <>
void TrainingKernelsOn<cpu::Context>::dropout(const Tensor& x, const DrawKey& key, const DrawWindow& window,
                                              double probability, Tensor& y) const {
  visit_floating(x.dtype(), "dropout", [&]<class T>(T) {
    using C = Compute<T>;
    const T* const from = x.as<const T>();
    T* const to = y.as<T>();
    const auto limit = static_cast<float>(probability);
    const auto factor = static_cast<C>(1 / (1 - probability));
    cpu::for_uniform_draws(x.numel(), window, key, [=](std::int64_t begin, std::int64_t end, const float* draws) {
      for (std::int64_t i = begin; i < end; ++i) {
        const C scaled = static_cast<C>(from[i]) * factor;
        to[i] = static_cast<T>(draws[i - begin] >= limit ? scaled : C(0));
      }
    });
  });
}

template <>
void TrainingKernelsOn<cpu::Context>::add_squared_norm(const Tensor& x, Tensor& result) const {
  visit_floating(x.dtype(), "add_squared_norm", [&]<class T>(T) {
    const T* const from = x.as<const T>();
    *result.as<double>() += cpu::parallel_sum<double>(x.numel(), [from](std::int64_t i) {
      const auto value = static_cast<double>(static_cast<Compute<T>>(from[i]));
      return value * value;
    });
  });
}

template <>
void TrainingKernelsOn<cpu::Context>::clamp(Tensor& x, double bound) const {
  visit_floating(x.dtype(), "clamp", [&]<class T>(T) {
    using C = Compute<T>;
    T* const at = x.as<T>();
    const auto limit = static_cast<C>(bound);
    cpu::parallel_for(x.numel(), cpu::default_grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const C value = static_cast<C>(at[i]);
        at[i] = static_cast<T>(value > limit ? limit : value < -limit ? -limit : value);
      }
    });
  });
}

template <>
void TrainingKernelsOn<cpu::Context>::sgd(std::span<const SgdWeight> weights) const {
  for (const SgdWeight& w : weights) visit_floating(w.weight.dtype(), "sgd", [&]<class T>(T) { cpu::sgd_as<T>(w); });
}

template <>
void TrainingKernelsOn<cpu::Context>::adamw(std::span<const AdamWWeight> weights) const {
  for (const AdamWWeight& w : weights)
    visit_floating(w.weight.dtype(), "adamw", [&]<class T>(T) { cpu::adamw_as<T>(w); });
}

}  // namespace heddle
