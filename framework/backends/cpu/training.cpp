#include <array>
#include <cmath>

#include "framework/backends/cpu/cpu_kernels.h"
#include "framework/backends/cpu/reduction.h"
#include "framework/scalar.h"

namespace heddle::cpu {

namespace {

constexpr std::int64_t grain = 16384;

/// Calls body(i, block) for every element i of 0 .. count-1, with the block of draws that holds element first + i.
template <class F>
void for_normal_blocks(std::int64_t count, std::int64_t first, const DrawKey& key, F body) {
  const PhiloxBlock words = purpose_key(key.key, key.purpose);
  parallel_for(count, grain / 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t element = first + i;
      const PhiloxBlock block = draw_block(words, key, static_cast<std::uint64_t>(element / 2));
      const std::int64_t stop = std::min(end, i + 2 - element % 2);
      for (; i < stop; ++i) body(i, block);
    }
  });
}

/// Calls body(begin, end, draws) for stretches of 0 .. count-1; draws[i - begin] is uniform in (0, 1) for element
/// first + i. The draws come first and by themselves, so that the loop over them in `body` can be made vectors of.
template <class F>
void for_uniform_draws(std::int64_t count, std::int64_t first, const DrawKey& key, F body) {
  const PhiloxBlock words = purpose_key(key.key, key.purpose);
  parallel_for(count, grain / 8, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t stretch = 256;
    std::array<float, stretch> draws;
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t lead = (first + i) % 4;
      for (std::size_t j = 0; j < stretch / 4; ++j) {
        const PhiloxBlock block = draw_block(words, key, static_cast<std::uint64_t>((first + i) / 4) + j);
        for (std::size_t k = 0; k < 4; ++k) draws[4 * j + k] = uniform_draw(block, k);
      }
      const std::int64_t stop = std::min(end, i + stretch - lead);
      body(i, stop, draws.data() + lead);
      i = stop;
    }
  });
}

class CpuTraining final : public TrainingKernels {
 public:
  void fill_normal(Tensor& y, const DrawKey& key, std::int64_t first, double mean, double deviation) const override {
    visit_floating(y.dtype(), "fill_normal", [&]<class T>(T) {
      T* const to = y.as<T>();
      for_normal_blocks(y.numel(), first, key, [=](std::int64_t i, const PhiloxBlock& block) {
        const double draw = normal_draw(block, static_cast<std::uint64_t>(first + i));
        to[i] = static_cast<T>(static_cast<Compute<T>>(mean + deviation * draw));
      });
    });
  }

  void fill_uniform(Tensor& y, const DrawKey& key, std::int64_t first, double low, double high) const override {
    visit_floating(y.dtype(), "fill_uniform", [&]<class T>(T) {
      T* const to = y.as<T>();
      for_uniform_draws(y.numel(), first, key, [=](std::int64_t begin, std::int64_t end, const float* draws) {
        for (std::int64_t i = begin; i < end; ++i)
          to[i] = static_cast<T>(static_cast<Compute<T>>(low + (high - low) * draws[i - begin]));
      });
    });
  }

  void dropout(const Tensor& x, const DrawKey& key, std::int64_t first, double probability, Tensor& y) const override {
    visit_floating(x.dtype(), "dropout", [&]<class T>(T) {
      using C = Compute<T>;
      const T* const from = x.as<const T>();
      T* const to = y.as<T>();
      const auto limit = static_cast<float>(probability);
      const auto factor = static_cast<C>(1 / (1 - probability));
      for_uniform_draws(x.numel(), first, key, [=](std::int64_t begin, std::int64_t end, const float* draws) {
        for (std::int64_t i = begin; i < end; ++i) {
          const C scaled = static_cast<C>(from[i]) * factor;
          to[i] = static_cast<T>(draws[i - begin] >= limit ? scaled : C(0));
        }
      });
    });
  }

  void add_squared_norm(const Tensor& x, Tensor& result) const override {
    visit_floating(x.dtype(), "add_squared_norm", [&]<class T>(T) {
      const T* const from = x.as<const T>();
      *result.as<double>() += parallel_sum<double>(x.numel(), [from](std::int64_t i) {
        const auto value = static_cast<double>(static_cast<Compute<T>>(from[i]));
        return value * value;
      });
    });
  }

  void clamp(Tensor& x, double bound) const override {
    visit_floating(x.dtype(), "clamp", [&]<class T>(T) {
      using C = Compute<T>;
      T* const at = x.as<T>();
      const auto most = static_cast<C>(bound);
      parallel_for(x.numel(), grain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const C value = static_cast<C>(at[i]);
          at[i] = static_cast<T>(value > most ? most : value < -most ? -most : value);
        }
      });
    });
  }

  void sgd(const SgdStep& step, const Tensor& gradient, Tensor& weight, Tensor& velocity) const override {
    visit_floating(weight.dtype(), "sgd", [&]<class T>(T) {
      using C = Compute<T>;
      const SgdUpdate<C> update(step);
      const T* const g = gradient.as<const T>();
      T* const w = weight.as<T>();
      C* const v = velocity.defined() ? velocity.as<C>() : nullptr;
      parallel_for(weight.numel(), grain / 2, [=](std::int64_t begin, std::int64_t end) {
        if (v == nullptr) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i)
            w[i] = static_cast<T>(update.without_momentum(static_cast<C>(g[i]), static_cast<C>(w[i])));
          return;
        }
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          C kept = v[i];
          w[i] = static_cast<T>(update(static_cast<C>(g[i]), static_cast<C>(w[i]), kept));
          v[i] = kept;
        }
      });
    });
  }

  void adamw(const AdamWStep& step, const Tensor& gradient, Tensor& weight, Tensor& mean,
             Tensor& square) const override {
    visit_floating(weight.dtype(), "adamw", [&]<class T>(T) {
      using C = Compute<T>;
      const AdamWUpdate<C> update(step);
      const T* const g = gradient.as<const T>();
      T* const w = weight.as<T>();
      C* const m = mean.as<C>();
      C* const s = square.as<C>();
      parallel_for(weight.numel(), grain / 4, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          C first = m[i];
          C second = s[i];
          w[i] = static_cast<T>(update(static_cast<C>(g[i]), static_cast<C>(w[i]), first, second));
          m[i] = first;
          s[i] = second;
        }
      });
    });
  }

  void merge_moments(const Tensor& groups, double momentum, Tensor& running_mean,
                     Tensor& running_variance) const override {
    visit_floating(groups.dtype(), "merge_moments", [&]<class T>(T) {
      using C = Compute<T>;
      const std::int64_t channels = running_mean.numel();
      const std::int64_t columns = 2 * channels + 1;
      for (std::int64_t c = 0; c < channels; ++c) {
        double count = 0;
        double mean = 0;
        double squares = 0;
        for (std::int64_t g = 0; g < groups.shape()[0]; ++g) {
          const T* const row = groups.as<const T>() + g * columns;
          const double more = row[0];
          if (more == 0) continue;
          const double difference = static_cast<double>(row[1 + c]) - mean;
          const double all = count + more;
          mean += difference * more / all;
          squares += static_cast<double>(row[1 + channels + c]) + difference * difference * count * more / all;
          count = all;
        }
        if (count == 0) return;
        const double variance = squares / std::max(count - 1, 1.0);
        const auto blend = [momentum](C& running, double fresh) {
          running = static_cast<C>((1 - momentum) * static_cast<double>(running) + momentum * fresh);
        };
        blend(running_mean.as<C>()[c], mean);
        blend(running_variance.as<C>()[c], variance);
      }
    });
  }
};

}  // namespace

std::unique_ptr<TrainingKernels> make_cpu_training() {
  return std::make_unique<CpuTraining>();
}

}  // namespace heddle::cpu
