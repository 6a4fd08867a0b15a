#include "framework/kernels/attention.h"

#include "framework/backends/plan/context.h"

namespace heddle {

namespace plan {

/// The number of scores: [N, T, H, 3, D] has one for each sample, head and pair of tokens. As in other layers, the
/// draws of dropout are not counted.
static double scores(const Tensor& qkv) {
  const Shape& s = qkv.shape();
  return static_cast<double>(s[0] * s[2]) * static_cast<double>(s[1] * s[1]);
}

}  // namespace plan

template <>
void AttentionKernelsOn<plan::Context>::attention(const Tensor& qkv, double /*scale*/,
                                                  const AttentionDropout& /*dropout*/, Tensor& y, Tensor& /*log_sums*/,
                                                  Tensor& /*workspace*/) const {
  context_.counter.kernel(plan::scores(qkv) * static_cast<double>(4 * qkv.shape()[4] + 4), qkv, y);
}

template <>
void AttentionKernelsOn<plan::Context>::attention_backward(const Tensor& qkv, double /*scale*/,
                                                           const AttentionDropout& /*dropout*/,
                                                           const Tensor& /*log_sums*/, const Tensor& dy, Tensor& dqkv,
                                                           Tensor& /*workspace*/) const {
  context_.counter.kernel(plan::scores(qkv) * static_cast<double>(10 * qkv.shape()[4] + 6), qkv, dy, dqkv);
}

template <>
std::int64_t AttentionKernelsOn<plan::Context>::attention_workspace(const Tensor& qkv, AttentionPass pass) const {
  return context_.needs->attention(qkv.shape(), qkv.dtype(), pass);
}

}  // namespace heddle
