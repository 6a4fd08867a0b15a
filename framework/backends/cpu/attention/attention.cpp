// Attention on the CPU: each thread takes whole pairs of sample and head, whose matrices fit into its cache, so that a
// pair's bits depend neither on the other pairs nor on the number of threads.
#include "framework/kernels/attention.h"

#include <algorithm>
#include <array>
#include <type_traits>

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
  const std::int64_t copied = dtype == compute_dtype(dtype) ? 0 : is_backward ? 7 : 4;
  const std::int64_t elements = (is_backward ? 2 : 1) * scores + (is_backward ? 1 : 2) * qkv[1] + copied * vectors;
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
  /// From one token's vectors to the next.
  std::int64_t stride(std::int64_t parts) const { return heads * parts * features; }
  std::int64_t row() const { return (sample * heads + head) * tokens; }
};

/// Brings the vectors of a token into the cache while others are computed: those of one head in two tokens are far
/// apart, so that the processor does not fetch them by itself.
template <class T>
void fetch(const Head& h, const T* vectors, std::int64_t token, std::int64_t parts) {
  prefetch(vectors + h.at(token, parts), parts * h.features * static_cast<std::int64_t>(sizeof(T)));
}

/// The vectors of a head, `parts` for each token, as matrices [T, D] of the compute type: where they are, or as the
/// `copy`-th and the next of the copies.
template <std::size_t parts, class T, class C>
std::array<StridedMatrix<const C>, parts> operands(const Head& h, const T* from, C* copies, std::int64_t copy = 0) {
  std::array<StridedMatrix<const C>, parts> matrices;
  for (std::size_t part = 0; part < parts; ++part) {
    const T* const first = from + h.at(0, parts) + static_cast<std::int64_t>(part) * h.features;
    if constexpr (std::is_same_v<T, C>) {
      matrices[part] = {first, h.stride(parts)};
    } else {
      C* const to = copies + (copy + static_cast<std::int64_t>(part)) * h.tokens * h.features;
      for (std::int64_t t = 0; t < h.tokens; ++t)
        for (std::int64_t i = 0; i < h.features; ++i)
          to[t * h.features + i] = static_cast<C>(first[t * h.stride(parts) + i]);
      matrices[part] = {to, h.features};
    }
  }
  return matrices;
}

/// The destinations of a head's products: the vectors themselves, or copies, which `write_results` converts.
template <std::size_t parts, class T, class C>
std::array<StridedMatrix<C>, parts> results(const Head& h, T* to, C* copies, std::int64_t copy) {
  std::array<StridedMatrix<C>, parts> matrices;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto index = static_cast<std::int64_t>(part);
    if constexpr (std::is_same_v<T, C>)
      matrices[part] = {to + h.at(0, parts) + index * h.features, h.stride(parts)};
    else
      matrices[part] = {copies + (copy + index) * h.tokens * h.features, h.features};
  }
  return matrices;
}

/// Converts what `results` has given into the vectors of a head; nothing to do where it has given these.
template <std::size_t parts, class T, class C>
void write_results(const Head& h, const std::array<StridedMatrix<C>, parts>& matrices, T* to) {
  if constexpr (!std::is_same_v<T, C>)
    for (std::size_t part = 0; part < parts; ++part) {
      T* const first = to + h.at(0, parts) + static_cast<std::int64_t>(part) * h.features;
      for (std::int64_t t = 0; t < h.tokens; ++t)
        for (std::int64_t i = 0; i < h.features; ++i)
          first[t * h.stride(parts) + i] = static_cast<T>(matrices[part].row(t)[i]);
    }
}

/// scale * [T, D] * [T, D] transposed -> [T, T].
template <class C>
void outer(const Head& h, double scale, StridedMatrix<const C> a, StridedMatrix<const C> b, C* c) {
  serial_product({.m = h.tokens, .n = h.tokens, .k = h.features, .transpose_b = true, .alpha = scale}, a, b,
                 StridedMatrix<C>{c, h.tokens});
}
/// scale * [T, T], transposed if asked, * [T, D] -> [T, D].
template <class C>
void inner(const Head& h, double scale, bool transpose, const C* a, StridedMatrix<const C> b, StridedMatrix<C> c) {
  serial_product({.m = h.tokens, .n = h.features, .k = h.tokens, .transpose_a = transpose, .alpha = scale},
                 StridedMatrix<const C>{a, h.tokens}, b, c);
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
void attend(const Head& h, const Head& next, double scale, const DropoutFactors& dropout, const T* qkv, C* scratch,
            T* y, C* log_sums) {
  C* const scores = scratch;
  C* const inverse_sums = scores + h.tokens * h.tokens;
  C* const factors = inverse_sums + h.tokens;
  C* const copies = factors + h.tokens;
  const auto [q, k, v] = operands<3>(h, qkv, copies);
  const auto [result] = results<1>(h, y, copies, 3);
  outer(h, scale, q, k, scores);
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    fetch(next, qkv, t, 3);
    fetch(h, y, t, 1);
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
  inner(h, 1, false, scores, v, result);
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    C* const row = result.row(t);
    for (std::int64_t i = 0; i < h.features; ++i) row[i] *= inverse_sums[t];
  }
  write_results<1, T, C>(h, {result}, y);
}

template <class T, class C = Compute<T>>
void attend_backward(const Head& h, const Head& next, double scale, const DropoutFactors& dropout, const T* qkv,
                     const C* log_sums, const T* dy, C* scratch, T* dqkv) {
  C* const shares = scratch;
  C* const gradients = shares + h.tokens * h.tokens;
  C* const factors = gradients + h.tokens * h.tokens;
  C* const copies = factors + h.tokens;
  const auto [q, k, v] = operands<3>(h, qkv, copies);
  const auto [g] = operands<1>(h, dy, copies, 3);
  const auto [dq, dk, dv] = results<3>(h, dqkv, copies, 4);
  outer(h, scale, q, k, shares);
  outer(h, 1, g, v, gradients);
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    fetch(next, qkv, t, 3);
    fetch(next, dy, t, 1);
    fetch(h, dqkv, t, 3);
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
  inner(h, 1, true, shares, g, dv);
  inner(h, scale, false, gradients, k, dq);
  inner(h, scale, true, gradients, q, dk);
  write_results<3, T, C>(h, {dq, dk, dv}, dqkv);
}

/// body(head, next head, scratch) for every pair of sample and head, spread over the team.
template <class C, class F>
void for_each_head(const Context& context, const Tensor& qkv, AttentionPass pass, Tensor& workspace, F body) {
  const Shape& s = qkv.shape();
  const AttentionScratch scratch(s, qkv.dtype(), pass);
  if (scratch.vectors == 0) return;
  const ThreadTeam team(context.threads());  // for each of which there is scratch space
  parallel_for(s[0] * s[2], 1, [&](std::int64_t begin, std::int64_t end) {
    const ThreadTeam alone(1);
    C* const own = reinterpret_cast<C*>(workspace.as<std::byte>() + omp_get_thread_num() * scratch.bytes);
    const auto head = [&](std::int64_t pair) {
      return Head{.tokens = s[1], .features = s[4], .sample = pair / s[2], .head = pair % s[2], .heads = s[2]};
    };
    for (std::int64_t pair = begin; pair < end; ++pair) body(head(pair), head(std::min(pair + 1, end - 1)), own);
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
    cpu::for_each_head<C>(context_, qkv, AttentionPass::forward, workspace,
                          [&](const cpu::Head& head, const cpu::Head& next, C* scratch) {
                            cpu::attend<T>(head, next, scale, factors, qkv.as<const T>(), scratch, y.as<T>(),
                                           log_sums.as<C>());
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
    cpu::for_each_head<C>(context_, qkv, AttentionPass::backward, workspace,
                          [&](const cpu::Head& head, const cpu::Head& next, C* scratch) {
                            cpu::attend_backward<T>(head, next, scale, factors, qkv.as<const T>(),
                                                    log_sums.as<const C>(), dy.as<const T>(), scratch, dqkv.as<T>());
                          });
  });
}

template <>
std::int64_t AttentionKernelsOn<cpu::Context>::attention_workspace(const Tensor& qkv, AttentionPass pass) const {
  return cpu::attention_needs(context_.threads(), qkv.shape(), qkv.dtype(), pass);
}

}  // namespace heddle
