#include "framework/ops/attention.h"

#include <cmath>

#include "framework/ops/checks.h"
#include "framework/ops/workspace.h"

namespace heddle {

Variable attention(const Variable& qkv, std::int64_t heads, std::optional<double> scale,
                   const AttentionDropout& dropout) {
  check_floating("attention", qkv.value());
  const Shape& shape = qkv.shape();
  if (shape.rank() != 3 || heads < 1 || shape[2] % (3 * heads) != 0)
    fail<InputError>("attention: expected [samples, tokens, {} heads * 3 * features], got {}", heads,
                     to_string(qkv.value()));
  if (!(dropout.probability >= 0 && dropout.probability < 1))
    fail<InputError>("attention: expected a probability of dropout in [0, 1), got {}", dropout.probability);
  if (dropout.probability > 0 && (dropout.first_head < 0 || dropout.first_head + heads > dropout.heads))
    fail<InputError>("attention: expected heads {} to {} to be among the {} of dropout", dropout.first_head,
                     dropout.first_head + heads - 1, dropout.heads);
  const std::int64_t features = shape[2] / (3 * heads);
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(features)));
  const Tensor x = qkv.value().reshape({shape[0], shape[1], heads, 3, features});
  Tensor y = Tensor::empty(x.device(), {shape[0], shape[1], heads * features}, x.dtype());
  Tensor log_sums = Tensor::empty(x.device(), {shape[0], heads, shape[1]}, compute_dtype(x.dtype()));
  {
    const AttentionKernels& kernels = x.device().backend().attention();
    Tensor workspace = workspace_of(x.device(), kernels.attention_workspace(x, AttentionPass::forward));
    kernels.attention(x, factor, dropout, y, log_sums, workspace);
  }
  return record(y, {qkv}, [=](const Tensor& dy, Wanted) {
    const AttentionKernels& kernels = x.device().backend().attention();
    Tensor dqkv = Tensor::empty_like(x);
    Tensor workspace = workspace_of(x.device(), kernels.attention_workspace(x, AttentionPass::backward));
    kernels.attention_backward(x, factor, dropout, log_sums, dy, dqkv, workspace);
    return Gradients{dqkv.reshape(shape.dimensions())};
  });
}

}  // namespace heddle
