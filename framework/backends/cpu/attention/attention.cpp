// Attention on the CPU: each thread takes whole pairs of sample and head, whose matrices fit into its cache, so that a
// pair's bits depend neither on the other pairs nor on the number of threads.
#include "framework/kernels/attention.h"

#include <omp.h>

#include "framework/backends/cpu/attention/scratch.h"
#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/linear_algebra/serial_product.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/backends/cpu/onednn/onednn.h"

namespace heddle::cpu {

AttentionScratch::AttentionScratch(const Shape& qkv, DType dtype, AttentionPass pass)
    : vectors(qkv[1] * qkv[4]), scores(qkv[1] * qkv[1]) {
  const bool is_backward = pass == AttentionPass::backward;
  const std::int64_t elements = (is_backward ? 7 : 4) * vectors + (is_backward ? 2 : 1) * scores;
  bytes = aligned(elements * static_cast<std::int64_t>(size_of(compute_dtype(dtype))));
}

std::int64_t attention_needs(int threads, const Shape& qkv, DType dtype, AttentionPass pass) {
  return threads * AttentionScratch(qkv, dtype, pass).bytes;
}

namespace {

/// One sample and head of tensors [N, T, H, parts, D].
struct Head {
  std::int64_t tokens, features;
  std::int64_t sample, head, heads;

  /// Where the vector of a token begins.
  std::int64_t at(std::int64_t token, std::int64_t parts, std::int64_t part) const {
    return (((sample * tokens + token) * heads + head) * parts + part) * features;
  }
  std::int64_t row() const { return (sample * heads + head) * tokens; }
};

template <class T, class C>
void read(const Head& h, const T* from, std::int64_t parts, std::int64_t part, C factor, C* to) {
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    const T* const vector = from + h.at(t, parts, part);
    for (std::int64_t i = 0; i < h.features; ++i) to[t * h.features + i] = factor * static_cast<C>(vector[i]);
  }
}

template <class T, class C>
void write(const Head& h, const C* from, std::int64_t parts, std::int64_t part, C factor, T* to) {
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    T* const vector = to + h.at(t, parts, part);
    for (std::int64_t i = 0; i < h.features; ++i) vector[i] = static_cast<T>(factor * from[t * h.features + i]);
  }
}

/// [T, D] * [T, D] transposed -> [T, T].
template <class C>
void outer(const Head& h, const C* a, const C* b, C* c) {
  serial_product({.m = h.tokens, .n = h.tokens, .k = h.features, .transpose_b = true}, a, b, c);
}
/// [T, T], transposed if asked, * [T, D] -> [T, D].
template <class C>
void inner(const Head& h, bool transpose, const C* a, const C* b, C* c) {
  serial_product({.m = h.tokens, .n = h.features, .k = h.tokens, .transpose_a = transpose}, a, b, c);
}

template <class T, class C = Compute<T>>
void attend(const Head& h, double scale, const T* qkv, C* scratch, T* y, C* log_sums) {
  const std::int64_t vectors = h.tokens * h.features;
  C* const q = scratch;
  C* const k = q + vectors;
  C* const v = k + vectors;
  C* const result = v + vectors;
  C* const scores = result + vectors;
  read(h, qkv, 3, 0, static_cast<C>(scale), q);
  read(h, qkv, 3, 1, C(1), k);
  read(h, qkv, 3, 2, C(1), v);
  outer(h, q, k, scores);
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    C* const row = scores + t * h.tokens;
    const auto value = [row](std::int64_t i) { return row[i]; };
    const C most = row_maximum<C>(h.tokens, value);
    const double sum = sum_of_exponentials<C>(h.tokens, value, most, [row](std::int64_t i, C term) { row[i] = term; });
    const C factor = static_cast<C>(1 / sum);
    for (std::int64_t i = 0; i < h.tokens; ++i) row[i] *= factor;
    log_sums[h.row() + t] = most + static_cast<C>(std::log(sum));
  }
  inner(h, false, scores, v, result);
  write(h, result, 1, 0, C(1), y);
}

template <class T, class C = Compute<T>>
void attend_backward(const Head& h, double scale, const T* qkv, const C* log_sums, const T* dy, C* scratch, T* dqkv) {
  const std::int64_t vectors = h.tokens * h.features;
  C* const q = scratch;
  C* const k = q + vectors;
  C* const v = k + vectors;
  C* const g = v + vectors;
  C* const dq = g + vectors;
  C* const dk = dq + vectors;
  C* const dv = dk + vectors;
  C* const shares = dv + vectors;
  C* const gradients = shares + h.tokens * h.tokens;
  read(h, qkv, 3, 0, static_cast<C>(scale), q);
  read(h, qkv, 3, 1, C(1), k);
  read(h, qkv, 3, 2, C(1), v);
  read(h, dy, 1, 0, C(1), g);
  outer(h, q, k, shares);
  outer(h, g, v, gradients);
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    C* const share = shares + t * h.tokens;
    C* const gradient = gradients + t * h.tokens;
    const C log_sum = log_sums[h.row() + t];
#pragma omp simd
    for (std::int64_t i = 0; i < h.tokens; ++i) share[i] = exponential(share[i] - log_sum);
    const C mean =
        static_cast<C>(stretched_sum<C>(0, h.tokens, [=](std::int64_t i) { return share[i] * gradient[i]; }));
#pragma omp simd
    for (std::int64_t i = 0; i < h.tokens; ++i) gradient[i] = share[i] * (gradient[i] - mean);
  }
  inner(h, true, shares, g, dv);
  inner(h, false, gradients, k, dq);
  inner(h, true, gradients, q, dk);  // q has the scale already
  write(h, dq, 3, 0, static_cast<C>(scale), dqkv);
  write(h, dk, 3, 1, C(1), dqkv);
  write(h, dv, 3, 2, C(1), dqkv);
}

/// body(head, scratch) for every pair of sample and head, spread over the team.
template <class C, class F>
void for_each_head(const Tensor& qkv, AttentionPass pass, Tensor& workspace, F body) {
  const Shape& s = qkv.shape();
  const AttentionScratch scratch(s, qkv.dtype(), pass);
  if (scratch.vectors == 0) return;
  parallel_for(s[0] * s[2], 1, [&](std::int64_t begin, std::int64_t end) {
    const ThreadTeam alone(1);
    C* const own = reinterpret_cast<C*>(workspace.as<std::byte>() + omp_get_thread_num() * scratch.bytes);
    for (std::int64_t pair = begin; pair < end; ++pair)
      body(Head{.tokens = s[1], .features = s[4], .sample = pair / s[2], .head = pair % s[2], .heads = s[2]}, own);
  });
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void AttentionKernelsOn<cpu::Context>::attention(const Tensor& qkv, double scale, Tensor& y, Tensor& log_sums,
                                                 Tensor& workspace) const {
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    using C = Compute<T>;
    cpu::for_each_head<C>(qkv, AttentionPass::forward, workspace, [&](const cpu::Head& head, C* scratch) {
      cpu::attend<T>(head, scale, qkv.as<const T>(), scratch, y.as<T>(), log_sums.as<C>());
    });
  });
}

template <>
void AttentionKernelsOn<cpu::Context>::attention_backward(const Tensor& qkv, double scale, const Tensor& log_sums,
                                                          const Tensor& dy, Tensor& dqkv, Tensor& workspace) const {
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    using C = Compute<T>;
    cpu::for_each_head<C>(qkv, AttentionPass::backward, workspace, [&](const cpu::Head& head, C* scratch) {
      cpu::attend_backward<T>(head, scale, qkv.as<const T>(), log_sums.as<const C>(), dy.as<const T>(), scratch,
                              dqkv.as<T>());
    });
  });
}

template <>
std::int64_t AttentionKernelsOn<cpu::Context>::attention_workspace(const Tensor& qkv, AttentionPass pass) const {
  return cpu::attention_needs(context_.threads(), qkv.shape(), qkv.dtype(), pass);
}

}  // namespace heddle
