// Attention on a GPU: a warp takes a row of scores, and the eight warps of a block neighbouring rows, which read the
// same keys and values. No scores are stored.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/draws.cuh"
#include "framework/backends/cuda/device/row_teams.cuh"
#include "framework/kernels/attention.h"
#include "framework/kernels/needs.h"

namespace heddle::cuda {

namespace {

/// Tokens whose scores a warp has at a time: one for each of its threads.
constexpr int tile = warp_threads;
/// Features that a thread sums at a time, and with it all threads of its warp.
constexpr int features_of_thread = 4;
constexpr int features_of_warp = features_of_thread * warp_threads;

/// qkv [N, T, H, 3, D], and what has one vector per token and head, [N, T, H, D].
struct Heads {
  std::int64_t samples, tokens, heads, features;

  std::int64_t rows() const { return samples * heads * tokens; }
  __device__ std::int64_t sample_of(std::int64_t row) const { return row / (heads * tokens); }
  __device__ std::int64_t head_of(std::int64_t row) const { return row / tokens % heads; }
  /// Where the vector of a token begins, in the sample and head of a row.
  __device__ std::int64_t vector(std::int64_t row, std::int64_t token) const {
    return ((sample_of(row) * tokens + token) * heads + head_of(row)) * features;
  }
  /// The same in qkv.
  __device__ std::int64_t part(std::int64_t row, std::int64_t token, int part) const {
    return 3 * vector(row, token) + part * features;
  }
};

Heads heads_of(const Tensor& qkv) {
  const Shape& s = qkv.shape();
  return {s[0], s[1], s[2], s[4]};
}

/// Factors of the weights that softmax gives, without dropout: all are 1.
struct NoDropout {
  template <class C>
  __device__ C factor(const Heads& /*heads*/, std::int64_t /*row*/, std::int64_t /*query*/,
                      std::int64_t /*key*/) const {
    return C(1);
  }
};
/// 0 with the probability, else 1 / (1 - probability).
struct DrawnDropout {
  AttentionDropout dropout;
  PhiloxBlock words;  // purpose_key() of dropout.key
  float limit;
  double kept;

  explicit DrawnDropout(const AttentionDropout& given)
      : dropout(given),
        words(purpose_key(given.key.key, given.key.purpose)),
        limit(static_cast<float>(given.probability)),
        kept(1 / (1 - given.probability)) {}

  /// What a key's weight for a query is multiplied by, in the sample and head of a row.
  template <class C>
  __device__ C factor(const Heads& heads, std::int64_t row, std::int64_t query, std::int64_t key) const {
    const auto element = static_cast<std::uint64_t>(
        dropout.first_draw(heads.sample_of(row), heads.head_of(row), query, heads.tokens) + key);
    const PhiloxBlock block = draw_block(words, dropout.key, element / UniformDraws::of_block);
    return UniformDraws::at(block, element) >= limit ? static_cast<C>(kept) : C(0);
  }
};

/// body(NoDropout or DrawnDropout).
template <class F>
void with_dropout(const AttentionDropout& dropout, F body) {
  if (dropout.probability > 0)
    body(DrawnDropout(dropout));
  else
    body(NoDropout());
}

template <class T>
__device__ Compute<T> dot(const T* a, const T* b, std::int64_t count) {
  Compute<T> sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<Compute<T>>(a[i]) * static_cast<Compute<T>>(b[i]);
  return sum;
}

/// A warp's row of scores, as one of its threads sees it. All threads of a block make the same calls: a warp without a
/// row works on the last one and stores nothing.
class RowWarp {
 public:
  __device__ RowWarp(std::int64_t number, std::int64_t rows)
      : row_(number < rows ? number : rows - 1), has_row_(number < rows) {}

  __device__ std::int64_t row() const { return row_; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % warp_threads; }
  __device__ int warp() const { return static_cast<int>(threadIdx.x) / warp_threads; }
  __device__ bool stores() const { return has_row_; }
  __device__ bool stores_alone() const { return has_row_ && lane() == 0; }

  template <class C, class Op>
  __device__ C reduce(C value, Op op) const {
    for (int difference = warp_threads / 2; difference > 0; difference /= 2)
      value = op(value, row_detail::of_other_lane(value, difference));
    return value;
  }
  template <class C>
  __device__ C sum(C value) const {
    return reduce(value, [](C a, C b) { return a + b; });
  }

 private:
  std::int64_t row_;
  bool has_row_;
};

template <class F>
__global__ void for_each_row_warp_kernel(std::int64_t rows, F f) {
  constexpr int warps = block_threads / warp_threads;
  for (std::int64_t first = std::int64_t{blockIdx.x} * warps; first < rows; first += std::int64_t{gridDim.x} * warps)
    f(RowWarp(first + threadIdx.x / warp_threads, rows));
}

template <class F>
void for_each_row_warp(const Context& context, std::int64_t rows, F f) {
  constexpr int warps = block_threads / warp_threads;
  if (rows > 0) launch(context, (rows + warps - 1) / warps, for_each_row_warp_kernel<F>, rows, f);
}

/// Sums of vectors, weighted by what the lanes of a warp have for a tile of tokens: the features
/// begin + lane, begin + lane + 32, ..
template <class C>
class WeightedSum {
 public:
  __device__ void scale(C factor) {
    for (C& sum : sums_) sum *= factor;
  }
  /// Adds weights[t] * vectors(t) for t < count.
  template <class F>
  __device__ void add(const C* weights, int count, std::int64_t begin, std::int64_t end, F vectors) {
    const std::int64_t first = begin + static_cast<int>(threadIdx.x) % warp_threads;
    for (int t = 0; t < count; ++t) {
      const auto* const vector = vectors(t);
      for (int i = 0; i < features_of_thread; ++i) {
        const std::int64_t feature = first + std::int64_t{i} * warp_threads;
        if (feature < end) sums_[i] += weights[t] * static_cast<C>(vector[feature]);
      }
    }
  }
  template <class T>
  __device__ void store(std::int64_t begin, std::int64_t end, C factor, T* to) const {
    const std::int64_t first = begin + static_cast<int>(threadIdx.x) % warp_threads;
    for (int i = 0; i < features_of_thread; ++i) {
      const std::int64_t feature = first + std::int64_t{i} * warp_threads;
      if (feature < end) to[feature] = static_cast<T>(factor * sums_[i]);
    }
  }

 private:
  C sums_[features_of_thread] = {};
};

/// The lanes' values in shared memory, one row for each warp of the block.
template <class C>
struct SharedTiles {
  C values[block_threads / warp_threads][tile];
};

template <class T, class Dropout>
void attend(const Context& context, const Tensor& qkv, double scale_in, const Dropout& dropout, Tensor& y,
            Tensor& log_sums) {
  using C = Compute<T>;
  const Heads h = heads_of(qkv);
  const T* const from = qkv.as<const T>();
  T* const to = y.as<T>();
  C* const sums = log_sums.as<C>();
  const C scale = static_cast<C>(scale_in);
  for_each_row_warp(context, h.rows(), [=] __device__(const RowWarp& warp) {
    __shared__ SharedTiles<C> shared;
    C* const shares = shared.values[warp.warp()];
    const std::int64_t query = warp.row() % h.tokens;
    for (std::int64_t begin = 0; begin < h.features; begin += features_of_warp) {
      WeightedSum<C> result;
      C most = -std::numeric_limits<C>::infinity();
      double sum = 0;
      for (std::int64_t first = 0; first < h.tokens; first += tile) {
        const std::int64_t key = first + warp.lane();
        C score = -std::numeric_limits<C>::infinity();
        if (key < h.tokens)
          score = scale * dot(from + h.part(warp.row(), query, 0), from + h.part(warp.row(), key, 1), h.features);
        const C largest = larger(most, warp.reduce(score, [](C a, C b) { return larger(a, b); }));
        const C rescale = exponential(most - largest);
        const C share = key < h.tokens ? exponential(score - largest) : C(0);
        sum = sum * static_cast<double>(rescale) + warp.sum(static_cast<double>(share));
        most = largest;
        shares[warp.lane()] = share * dropout.template factor<C>(h, warp.row(), query, key);
        __syncthreads();
        result.scale(rescale);
        result.add(shares, static_cast<int>(std::min<std::int64_t>(tile, h.tokens - first)), begin, h.features,
                   [&](int t) { return from + h.part(warp.row(), first + t, 2); });
        __syncthreads();
      }
      if (warp.stores()) result.store(begin, h.features, static_cast<C>(1 / sum), to + h.vector(warp.row(), query));
      if (begin == 0 && warp.stores_alone()) sums[warp.row()] = most + static_cast<C>(std::log(sum));
    }
  });
}

/// What a backward pass reads.
template <class T, class Dropout>
struct BackwardInputs {
  using C = Compute<T>;
  Heads h;
  const T* qkv;
  const T* dy;
  const C* log_sums;
  C scale;
  Dropout dropout;

  /// The share of a key in a query's result, in the sample and head of a row.
  __device__ C share(std::int64_t row, std::int64_t query, std::int64_t key) const {
    const C score = scale * dot(qkv + h.part(row, query, 0), qkv + h.part(row, key, 1), h.features);
    return exponential(score - log_sums[row / h.tokens * h.tokens + query]);
  }
  /// What dropout multiplies it by.
  __device__ C factor(std::int64_t row, std::int64_t query, std::int64_t key) const {
    return dropout.template factor<C>(h, row, query, key);
  }
  /// The gradient of a share that dropout multiplies by `factor`.
  __device__ C share_gradient(std::int64_t row, std::int64_t query, std::int64_t key, C factor) const {
    return factor * dot(dy + h.vector(row, query), qkv + h.part(row, key, 2), h.features);
  }
};

/// means [rows]: of each query's share gradients, weighted by the shares; then the gradients of the queries.
template <class T, class Dropout>
void queries_backward(const Context& context, const BackwardInputs<T, Dropout>& in, Compute<T>* means, T* dqkv) {
  using C = Compute<T>;
  const Heads h = in.h;
  for_each_row_warp(context, h.rows(), [=] __device__(const RowWarp& warp) {
    __shared__ SharedTiles<C> shared;
    C* const gradients = shared.values[warp.warp()];
    const std::int64_t query = warp.row() % h.tokens;
    const auto gradient = [&](std::int64_t key) {
      return in.share_gradient(warp.row(), query, key, in.factor(warp.row(), query, key));
    };
    double total = 0;
    for (std::int64_t key = warp.lane(); key < h.tokens; key += tile)
      total += static_cast<double>(in.share(warp.row(), query, key) * gradient(key));
    const C mean = static_cast<C>(warp.sum(total));
    if (warp.stores_alone()) means[warp.row()] = mean;
    for (std::int64_t begin = 0; begin < h.features; begin += features_of_warp) {
      WeightedSum<C> result;
      for (std::int64_t first = 0; first < h.tokens; first += tile) {
        const std::int64_t key = first + warp.lane();
        gradients[warp.lane()] = key < h.tokens ? in.share(warp.row(), query, key) * (gradient(key) - mean) : C(0);
        __syncthreads();
        result.add(gradients, static_cast<int>(std::min<std::int64_t>(tile, h.tokens - first)), begin, h.features,
                   [&](int t) { return in.qkv + h.part(warp.row(), first + t, 1); });
        __syncthreads();
      }
      if (warp.stores()) result.store(begin, h.features, in.scale, dqkv + h.part(warp.row(), query, 0));
    }
  });
}

/// The gradients of the keys and values: a warp's row is a key.
template <class T, class Dropout>
void keys_backward(const Context& context, const BackwardInputs<T, Dropout>& in, const Compute<T>* means, T* dqkv) {
  using C = Compute<T>;
  const Heads h = in.h;
  for_each_row_warp(context, h.rows(), [=] __device__(const RowWarp& warp) {
    __shared__ SharedTiles<C> shared_shares;
    __shared__ SharedTiles<C> shared_gradients;
    C* const shares = shared_shares.values[warp.warp()];
    C* const gradients = shared_gradients.values[warp.warp()];
    const std::int64_t key = warp.row() % h.tokens;
    const C* const mean_of = means + warp.row() / h.tokens * h.tokens;
    for (std::int64_t begin = 0; begin < h.features; begin += features_of_warp) {
      WeightedSum<C> dk;
      WeightedSum<C> dv;
      for (std::int64_t first = 0; first < h.tokens; first += tile) {
        const std::int64_t query = first + warp.lane();
        const bool exists = query < h.tokens;
        const C share = exists ? in.share(warp.row(), query, key) : C(0);
        const C factor = exists ? in.factor(warp.row(), query, key) : C(0);
        shares[warp.lane()] = share * factor;
        gradients[warp.lane()] =
            exists ? share * (in.share_gradient(warp.row(), query, key, factor) - mean_of[query]) : C(0);
        __syncthreads();
        const int count = static_cast<int>(std::min<std::int64_t>(tile, h.tokens - first));
        dk.add(gradients, count, begin, h.features, [&](int t) { return in.qkv + h.part(warp.row(), first + t, 0); });
        dv.add(shares, count, begin, h.features, [&](int t) { return in.dy + h.vector(warp.row(), first + t); });
        __syncthreads();
      }
      if (!warp.stores()) continue;
      dk.store(begin, h.features, in.scale, dqkv + h.part(warp.row(), key, 1));
      dv.store(begin, h.features, C(1), dqkv + h.part(warp.row(), key, 2));
    }
  });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void AttentionKernelsOn<cuda::Context>::attention(const Tensor& qkv, double scale, const AttentionDropout& dropout,
                                                  Tensor& y, Tensor& log_sums, Tensor& /*workspace*/) const {
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    cuda::with_dropout(dropout,
                       [&](const auto& factors) { cuda::attend<T>(context_, qkv, scale, factors, y, log_sums); });
  });
}

template <>
void AttentionKernelsOn<cuda::Context>::attention_backward(const Tensor& qkv, double scale,
                                                           const AttentionDropout& dropout, const Tensor& log_sums,
                                                           const Tensor& dy, Tensor& dqkv, Tensor& workspace) const {
  if (qkv.numel() == 0) return;
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    using C = Compute<T>;
    cuda::with_dropout(dropout, [&]<class Dropout>(const Dropout& factors) {
      const cuda::BackwardInputs<T, Dropout> in{cuda::heads_of(qkv),    qkv.as<const T>(),     dy.as<const T>(),
                                                log_sums.as<const C>(), static_cast<C>(scale), factors};
      C* const means = reinterpret_cast<C*>(workspace.as<std::byte>());
      cuda::queries_backward<T>(context_, in, means, dqkv.as<T>());
      cuda::keys_backward<T>(context_, in, means, dqkv.as<T>());
    });
  });
}

template <>
std::int64_t AttentionKernelsOn<cuda::Context>::attention_workspace(const Tensor& qkv, AttentionPass pass) const {
  return KernelNeeds().attention(qkv.shape(), qkv.dtype(), pass);
}

}  // namespace heddle
