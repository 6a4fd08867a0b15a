// Attention on the CPU: each thread takes whole pairs of sample and head, whose matrices fit into its cache, so that a
// pair's bits depend neither on the other pairs nor on the number of threads.
#include "framework/kernels/attention.h"

#include <algorithm>
#include <array>

#include <omp.h>

#include "framework/backends/cpu/attention/scratch.h"
#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/linear_algebra/serial_product.h"
#include "framework/backends/cpu/loops/draws.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/backends/cpu/loops/prefetch.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/backends/cpu/onednn/onednn.h"

namespace heddle::cpu {

AttentionScratch::AttentionScratch(const Shape& qkv, DType dtype, AttentionPass pass)
    : vectors(qkv[1] * qkv[4]), scores(qkv[1] * qkv[1]) {
  const bool is_backward = pass == AttentionPass::backward;
  const std::int64_t elements =
      (is_backward ? 7 : 4) * vectors + (is_backward ? 2 : 1) * scores + (is_backward ? 1 : 2) * qkv[1];
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

  /// Where the vectors of a token begin.
  std::int64_t at(std::int64_t token, std::int64_t parts) const {
    return ((sample * tokens + token) * heads + head) * parts * features;
  }
  std::int64_t row() const { return (sample * heads + head) * tokens; }
};

/// Brings the vectors of a token some way ahead into the cache: those of one head in two tokens are far apart, so that
/// the processor does not fetch them by itself.
template <class T>
void fetch_ahead(const Head& h, const T* vectors, std::int64_t token, std::int64_t parts) {
  constexpr std::int64_t tokens_ahead = 8;
  const std::int64_t later = std::min(token + tokens_ahead, h.tokens - 1);
  prefetch(vectors + h.at(later, parts), parts * h.features * static_cast<std::int64_t>(sizeof(T)));
}

/// The vectors of a head, so many for each token, into matrices [T, D].
template <std::size_t parts, class T, class C>
void read(const Head& h, const T* from, const std::array<C*, parts>& to) {
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    fetch_ahead(h, from, t, parts);
    const T* const vectors = from + h.at(t, parts);
    for (std::size_t part = 0; part < parts; ++part) {
      const T* const vector = vectors + static_cast<std::int64_t>(part) * h.features;
      C* const row = to[part] + t * h.features;
      for (std::int64_t i = 0; i < h.features; ++i) row[i] = static_cast<C>(vector[i]);
    }
  }
}

/// Matrices [T, D], times scale(t, part), into the vectors of a head.
template <std::size_t parts, class T, class C, class Scale>
void write(const Head& h, const std::array<const C*, parts>& from, Scale scale, T* to) {
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    fetch_ahead(h, to, t, parts);
    T* const vectors = to + h.at(t, parts);
    for (std::size_t part = 0; part < parts; ++part) {
      const C factor = scale(t, part);
      const C* const row = from[part] + t * h.features;
      T* const vector = vectors + static_cast<std::int64_t>(part) * h.features;
      for (std::int64_t i = 0; i < h.features; ++i) vector[i] = static_cast<T>(factor * row[i]);
    }
  }
}

/// scale * [T, D] * [T, D] transposed -> [T, T].
template <class C>
void outer(const Head& h, double scale, const C* a, const C* b, C* c) {
  serial_product({.m = h.tokens, .n = h.tokens, .k = h.features, .transpose_b = true, .alpha = scale}, a, b, c);
}
/// [T, T], transposed if asked, * [T, D] -> [T, D].
template <class C>
void inner(const Head& h, bool transpose, const C* a, const C* b, C* c) {
  serial_product({.m = h.tokens, .n = h.features, .k = h.tokens, .transpose_a = transpose}, a, b, c);
}

/// The factors of the weights of a query: 0 or 1 / (1 - probability).
class DropoutFactors {
 public:
  explicit DropoutFactors(const AttentionDropout& dropout) : dropout_(dropout), stream_(dropout.key) {}

  bool drops() const { return dropout_.probability > 0; }
  template <class C>
  void draw(const Head& h, std::int64_t query, C* factors) const {
    constexpr std::int64_t stretch = 256;
    std::array<float, stretch> draws;
    const std::int64_t first = dropout_.first_draw(h.sample, h.head, query, h.tokens);
    const auto limit = static_cast<float>(dropout_.probability);
    const auto kept = static_cast<C>(1 / (1 - dropout_.probability));
    for (std::int64_t begin = 0; begin < h.tokens; begin += stretch) {
      const std::int64_t count = std::min(stretch, h.tokens - begin);
      stream_.uniforms(first + begin, count, draws.data());
      for (std::int64_t i = 0; i < count; ++i)
        factors[begin + i] = draws[static_cast<std::size_t>(i)] >= limit ? kept : C(0);
    }
  }

 private:
  AttentionDropout dropout_;
  DrawStream stream_;
};

template <class T, class C = Compute<T>>
void attend(const Head& h, double scale, const DropoutFactors& dropout, const T* qkv, C* scratch, T* y, C* log_sums) {
  const std::int64_t vectors = h.tokens * h.features;
  C* const q = scratch;
  C* const k = q + vectors;
  C* const v = k + vectors;
  C* const result = v + vectors;
  C* const scores = result + vectors;
  C* const inverse_sums = scores + h.tokens * h.tokens;
  C* const factors = inverse_sums + h.tokens;
  read<3, T, C>(h, qkv, {q, k, v});
  outer(h, scale, q, k, scores);
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    C* const row = scores + t * h.tokens;
    const C most = row_maximum<C>(h.tokens, [row](std::int64_t i) { return row[i]; });
#pragma omp simd
    for (std::int64_t i = 0; i < h.tokens; ++i) row[i] = exponential(row[i] - most);
    const double sum = stretched_sum<C>(0, h.tokens, [row](std::int64_t i) { return row[i]; });
    inverse_sums[t] = static_cast<C>(1 / sum);
    log_sums[h.row() + t] = most + static_cast<C>(std::log(sum));
    if (!dropout.drops()) continue;
    dropout.draw(h, t, factors);
    for (std::int64_t i = 0; i < h.tokens; ++i) row[i] *= factors[i];
  }
  inner(h, false, scores, v, result);
  write<1, T, C>(
      h, {result}, [=](std::int64_t t, std::size_t) { return inverse_sums[t]; }, y);
}

template <class T, class C = Compute<T>>
void attend_backward(const Head& h, double scale, const DropoutFactors& dropout, const T* qkv, const C* log_sums,
                     const T* dy, C* scratch, T* dqkv) {
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
  C* const factors = gradients + h.tokens * h.tokens;
  read<3, T, C>(h, qkv, {q, k, v});
  read<1, T, C>(h, dy, {g});
  outer(h, scale, q, k, shares);
  outer(h, 1, g, v, gradients);
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    C* const share = shares + t * h.tokens;
    C* const gradient = gradients + t * h.tokens;
    const C log_sum = log_sums[h.row() + t];
#pragma omp simd
    for (std::int64_t i = 0; i < h.tokens; ++i) share[i] = exponential(share[i] - log_sum);
    if (dropout.drops()) {
      dropout.draw(h, t, factors);
      for (std::int64_t i = 0; i < h.tokens; ++i) gradient[i] *= factors[i];
    }
    const C mean =
        static_cast<C>(stretched_sum<C>(0, h.tokens, [=](std::int64_t i) { return share[i] * gradient[i]; }));
#pragma omp simd
    for (std::int64_t i = 0; i < h.tokens; ++i) gradient[i] = share[i] * (gradient[i] - mean);
    if (dropout.drops())
      for (std::int64_t i = 0; i < h.tokens; ++i) share[i] *= factors[i];
  }
  inner(h, true, shares, g, dv);
  inner(h, false, gradients, k, dq);
  inner(h, true, gradients, q, dk);
  const auto factor = static_cast<C>(scale);
  write<3, T, C>(
      h, {dq, dk, dv}, [=](std::int64_t, std::size_t part) { return part == 2 ? C(1) : factor; }, dqkv);
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
void AttentionKernelsOn<cpu::Context>::attention(const Tensor& qkv, double scale, const AttentionDropout& dropout,
                                                 Tensor& y, Tensor& log_sums, Tensor& workspace) const {
  const cpu::DropoutFactors factors(dropout);
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    using C = Compute<T>;
    cpu::for_each_head<C>(qkv, AttentionPass::forward, workspace, [&](const cpu::Head& head, C* scratch) {
      cpu::attend<T>(head, scale, factors, qkv.as<const T>(), scratch, y.as<T>(), log_sums.as<C>());
    });
  });
}

template <>
void AttentionKernelsOn<cpu::Context>::attention_backward(const Tensor& qkv, double scale,
                                                          const AttentionDropout& dropout, const Tensor& log_sums,
                                                          const Tensor& dy, Tensor& dqkv, Tensor& workspace) const {
  const cpu::DropoutFactors factors(dropout);
  visit_floating(qkv.dtype(), "attention", [&]<class T>(T) {
    using C = Compute<T>;
    cpu::for_each_head<C>(qkv, AttentionPass::backward, workspace, [&](const cpu::Head& head, C* scratch) {
      cpu::attend_backward<T>(head, scale, factors, qkv.as<const T>(), log_sums.as<const C>(), dy.as<const T>(),
                              scratch, dqkv.as<T>());
    });
  });
}

template <>
std::int64_t AttentionKernelsOn<cpu::Context>::attention_workspace(const Tensor& qkv, AttentionPass pass) const {
  return cpu::attention_needs(context_.threads(), qkv.shape(), qkv.dtype(), pass);
}

}  // namespace heddle
