// What the kernels of attention read, and where.
#pragma once

#include "framework/backends/cuda/device/draws.cuh"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/kernels/attention.h"

namespace heddle::cuda {

/// qkv [N, T, H, 3, D], and what has one vector per token and head, [N, T, H, D]. Pairs of a sample and a head have the
/// number sample * H + head.
struct Heads {
  std::int64_t samples, tokens, heads;
  int features;

  /// From a token's vector to that of the next one.
  __host__ __device__ std::int64_t step() const { return heads * features; }
  /// Where the vector of a pair's token begins.
  __device__ std::int64_t vector(std::int64_t pair, std::int64_t token) const {
    return ((pair / heads * tokens + token) * heads + pair % heads) * features;
  }
  /// The same in qkv.
  __device__ std::int64_t part(std::int64_t pair, std::int64_t token, int part) const {
    return 3 * vector(pair, token) + part * features;
  }
};

/// Vectors of equal size, one after the other.
template <class T>
struct VectorRows {
  const T* at;
  std::int64_t step;

  __device__ VectorRows from(std::int64_t first) const { return {at + first * step, step}; }
};

template <class T>
struct AttentionInputs {
  using C = Compute<T>;
  Heads heads;
  const T* qkv;
  C scale;
  AttentionDropout dropout;
  PhiloxBlock words;  // purpose_key() of dropout.key
  float limit;
  C kept;

  AttentionInputs(const Tensor& tensor, double scores_scale, const AttentionDropout& given)
      : heads{tensor.shape()[0], tensor.shape()[1], tensor.shape()[2], static_cast<int>(tensor.shape()[4])},
        qkv(tensor.as<const T>()),
        scale(static_cast<C>(scores_scale)),
        dropout(given),
        words(purpose_key(given.key.key, given.key.purpose)),
        limit(static_cast<float>(given.probability)),
        kept(static_cast<C>(1 / (1 - given.probability))) {}

  /// The queries, keys or values of a pair.
  __device__ VectorRows<T> part(std::int64_t pair, int part) const {
    return {qkv + heads.part(pair, 0, part), 3 * heads.step()};
  }

  /// What dropout multiplies a key's weight for a query by: 0 with the probability, else 1 / (1 - probability).
  __device__ C factor(std::int64_t pair, std::int64_t query, std::int64_t key) const {
    if (limit == 0) return C(1);
    const auto element = static_cast<std::uint64_t>(
        dropout.first_draw(pair / heads.heads, pair % heads.heads, query, heads.tokens) + key);
    const PhiloxBlock block = draw_block(words, dropout.key, element / UniformDraws::of_block);
    return UniformDraws::at(block, element) >= limit ? kept : C(0);
  }
};

}  // namespace heddle::cuda
