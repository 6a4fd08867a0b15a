// Attention on a GPU. A block has some rows of scores of one sample and head, of which it computes a few columns at a
// time, in shared memory; no scores are stored. First sums over a row are computed, then, from the same scores again,
// what they weigh: FlashAttention's way (Dao et al. 2022), without rescaling.
#include "framework/backends/cuda/attention/attention_tiles.cuh"
#include "framework/backends/cuda/context.h"
#include "framework/kernels/attention.h"
#include "framework/kernels/needs.h"

namespace heddle::cuda {

namespace {

/// y and log_sums for the queries of a block.
template <class T>
struct Attend {
  using C = Compute<T>;
  AttentionInputs<T> in;
  T* y;
  C* log_sums;

  __device__ void operator()(std::int64_t unit) const {
    __shared__ AttentionMemory<T, 1> memory;
    const AttentionRows rows(in.heads, unit, AttentionShape<T>::rows);
    const Heads& h = in.heads;
    const VectorRows<T> keys = in.part(rows.pair, 1);
    const VectorRows<T> values = in.part(rows.pair, 2);
    AttentionBlock<T, 1> block(memory, rows.count, h.features);
    const VectorRows<T> queries = in.part(rows.pair, 0).from(rows.first);

    C most = -std::numeric_limits<C>::infinity();
    C sum = 0;
    C scores[AttentionShape<T>::columns];
    AttentionShape<T>::for_each_others(h.tokens, [&](std::int64_t first, int count) {
      block.multiply({{queries, keys.from(first)}}, count, {&scores});
      C largest = most;
      block.for_each_column(count, [&](int i, int) { largest = larger(largest, in.scale * scores[i]); });
      if (block.first_column() < count) sum *= exponential(most - largest);
      most = largest;
      block.for_each_column(count, [&](int i, int) { sum += exponential(in.scale * scores[i] - most); });
    });
    const C largest = block.reduce_row(most, [](C a, C b) { return larger(a, b); });
    sum = block.reduce_row(sum > C(0) ? sum * exponential(most - largest) : sum, [](C a, C b) { return a + b; });
    const C log_sum = largest + std::log(sum);
    if (block.is_first_of_row()) log_sums[rows.pair * h.tokens + rows.first + block.row()] = log_sum;

    for (int begin = 0; begin < h.features; begin += AttentionShape<T>::features) {
      WeightedSums<T> result;
      AttentionShape<T>::for_each_others(h.tokens, [&](std::int64_t first, int count) {
        block.multiply({{queries, keys.from(first)}}, count, {&scores});
        C shares[AttentionShape<T>::columns] = {};
        block.for_each_column(count, [&](int i, int column) {
          shares[i] = exponential(in.scale * scores[i] - log_sum) *
                      in.factor(rows.pair, rows.first + block.row(), first + column);
        });
        block.add_weighted(shares, 0, values.from(first), count, begin, result);
      });
      block.store(result, begin, C(1), y + h.vector(rows.pair, rows.first), h.step());
    }
  }
};

/// What the backward passes read.
template <class T>
struct BackwardInputs : AttentionInputs<T> {
  using C = Compute<T>;
  const T* dy;
  const C* log_sums;

  __device__ VectorRows<T> dy_of(std::int64_t pair) const {
    return {dy + this->heads.vector(pair, 0), this->heads.step()};
  }
  __device__ C share(C score, C log_sum) const { return exponential(this->scale * score - log_sum); }
};

/// means [rows]: of each query's share gradients, weighted by the shares; then the gradients of the queries.
template <class T>
struct QueriesBackward {
  using C = Compute<T>;
  BackwardInputs<T> in;
  C* means;
  T* dqkv;

  __device__ void operator()(std::int64_t unit) const {
    __shared__ AttentionMemory<T, 2> memory;
    const Heads& h = in.heads;
    const AttentionRows rows(h, unit, AttentionShape<T>::rows);
    AttentionBlock<T, 2> block(memory, rows.count, h.features);
    const VectorRows<T> queries = in.part(rows.pair, 0).from(rows.first);
    const VectorRows<T> dy = in.dy_of(rows.pair).from(rows.first);
    const std::int64_t place = rows.pair * h.tokens + rows.first + block.row();
    const C log_sum = block.has_row() ? in.log_sums[place] : C(0);

    C scores[AttentionShape<T>::columns];
    C gradients[AttentionShape<T>::columns];
    // scores: the shares of some keys; gradients: those by the shares.
    const auto compute = [&](std::int64_t first, int count) {
      block.multiply({{queries, in.part(rows.pair, 1).from(first)}, {dy, in.part(rows.pair, 2).from(first)}}, count,
                     {&scores, &gradients});
      block.for_each_column(count, [&](int i, int column) {
        scores[i] = in.share(scores[i], log_sum);
        gradients[i] *= in.factor(rows.pair, rows.first + block.row(), first + column);
      });
    };
    C total = 0;
    AttentionShape<T>::for_each_others(h.tokens, [&](std::int64_t first, int count) {
      compute(first, count);
      block.for_each_column(count, [&](int i, int) { total += scores[i] * gradients[i]; });
    });
    const C mean = block.reduce_row(total, [](C a, C b) { return a + b; });
    if (block.is_first_of_row()) means[place] = mean;

    for (int begin = 0; begin < h.features; begin += AttentionShape<T>::features) {
      WeightedSums<T> result;
      AttentionShape<T>::for_each_others(h.tokens, [&](std::int64_t first, int count) {
        compute(first, count);
        C weights[AttentionShape<T>::columns] = {};
        block.for_each_column(count, [&](int i, int) { weights[i] = scores[i] * (gradients[i] - mean); });
        block.add_weighted(weights, 0, in.part(rows.pair, 1).from(first), count, begin, result);
      });
      block.store(result, begin, in.scale, dqkv + h.part(rows.pair, rows.first, 0), 3 * h.step());
    }
  }
};

/// The gradients of the keys and values of a block.
template <class T>
struct KeysBackward {
  using C = Compute<T>;
  BackwardInputs<T> in;
  const C* means;
  T* dqkv;

  __device__ void operator()(std::int64_t unit) const {
    __shared__ AttentionMemory<T, 2> memory;
    const Heads& h = in.heads;
    const AttentionRows rows(h, unit, AttentionShape<T>::rows);
    AttentionBlock<T, 2> block(memory, rows.count, h.features);
    const VectorRows<T> keys = in.part(rows.pair, 1).from(rows.first);
    const VectorRows<T> values = in.part(rows.pair, 2).from(rows.first);
    const std::int64_t queries = rows.pair * h.tokens;

    C scores[AttentionShape<T>::columns];
    C gradients[AttentionShape<T>::columns];
    for (int begin = 0; begin < h.features; begin += AttentionShape<T>::features) {
      WeightedSums<T> dk;
      WeightedSums<T> dv;
      AttentionShape<T>::for_each_others(h.tokens, [&](std::int64_t first, int count) {
        const VectorRows<T> q = in.part(rows.pair, 0).from(first);
        const VectorRows<T> dy = in.dy_of(rows.pair).from(first);
        block.multiply({{keys, q}, {values, dy}}, count, {&scores, &gradients});
        C shares[AttentionShape<T>::columns] = {};
        C weights[AttentionShape<T>::columns] = {};
        block.for_each_column(count, [&](int i, int column) {
          const std::int64_t query = first + column;
          const C share = in.share(scores[i], in.log_sums[queries + query]);
          const C factor = in.factor(rows.pair, query, rows.first + block.row());
          shares[i] = share * factor;
          weights[i] = share * (gradients[i] * factor - means[queries + query]);
        });
        block.add_weighted(weights, 0, q, count, begin, dk);
        block.add_weighted(shares, 1, dy, count, begin, dv);
      });
      block.store(dk, begin, in.scale, dqkv + h.part(rows.pair, rows.first, 1), 3 * h.step());
      block.store(dv, begin, C(1), dqkv + h.part(rows.pair, rows.first, 2), 3 * h.step());
    }
  }
};

template <class T>
void for_each_block_of_rows(const Context& context, const Heads& heads, auto f) {
  for_each_row<2>(context, heads.samples * heads.heads * AttentionRows::blocks(heads.tokens, AttentionShape<T>::rows),
                  f);
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void AttentionKernelsOn<cuda::Context>::attention(const Tensor& qkv, double scale, const AttentionDropout& dropout,
                                                  Tensor& y, Tensor& log_sums, Tensor& /*workspace*/) const {
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    const cuda::AttentionInputs<T> in(qkv, scale, dropout);
    cuda::for_each_block_of_rows<T>(context_, in.heads, cuda::Attend<T>{in, y.as<T>(), log_sums.as<Compute<T>>()});
  });
}

template <>
void AttentionKernelsOn<cuda::Context>::attention_backward(const Tensor& qkv, double scale,
                                                           const AttentionDropout& dropout, const Tensor& log_sums,
                                                           const Tensor& dy, Tensor& dqkv, Tensor& workspace) const {
  if (qkv.numel() == 0) return;
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    using C = Compute<T>;
    const cuda::BackwardInputs<T> in{{qkv, scale, dropout}, dy.as<const T>(), log_sums.as<const C>()};
    C* const means = reinterpret_cast<C*>(workspace.as<std::byte>());
    cuda::for_each_block_of_rows<T>(context_, in.heads, cuda::QueriesBackward<T>{in, means, dqkv.as<T>()});
    cuda::for_each_block_of_rows<T>(context_, in.heads, cuda::KeysBackward<T>{in, means, dqkv.as<T>()});
  });
}

template <>
std::int64_t AttentionKernelsOn<cuda::Context>::attention_workspace(const Tensor& qkv, AttentionPass pass) const {
  return KernelNeeds().attention(qkv.shape(), qkv.dtype(), pass);
}

}  // namespace heddle
