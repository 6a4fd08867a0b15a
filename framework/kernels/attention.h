// Softmax attention between the tokens of each sample, one head at a time (Vaswani et al. 2017).
#pragma once

#include "framework/scalars/draw.h"
#include "framework/tensors/tensor.h"

namespace heddle {

enum class AttentionPass { forward, backward };

/// Sets each weight that softmax gives a key to zero with `probability`, and scales the others by
/// 1 / (1 - probability). The draw of a weight has the number that the weight would have in one tensor [global batch,
/// heads, tokens, tokens] of the layer; `first_sample` and `first_head` say where in it a tensor's weights lie.
struct AttentionDropout {
  double probability = 0;
  DrawKey key{};
  std::int64_t first_sample = 0;
  std::int64_t first_head = 0;
  std::int64_t heads = 0;

  /// The number of the first of a query's draws, one for each of the `tokens` keys.
  HEDDLE_HOST_DEVICE std::int64_t first_draw(std::int64_t sample, std::int64_t head, std::int64_t query,
                                             std::int64_t tokens) const {
    return (((first_sample + sample) * heads + first_head + head) * tokens + query) * tokens;
  }
};

class AttentionKernels {
 public:
  virtual ~AttentionKernels() = default;

  /// qkv [N, T, H, 3, D]: the query, key and value of every token and head. y [N, T, H, D] =
  /// dropout(softmax(scale * q k^T)) v for each sample and head, with scores and sums in the compute type. log_sums
  /// [N, H, T], of the compute type: ln of the sum of exponentials of each row of scores. The scores of few pairs of
  /// sample and head exist at a time.
  virtual void attention(const Tensor& qkv, double scale, const AttentionDropout& dropout, Tensor& y, Tensor& log_sums,
                         Tensor& workspace) const = 0;
  /// dqkv from dy. The scores are computed again (FlashAttention: Dao et al. 2022). In 16 bits, a GPU rounds their
  /// gradients to the type of qkv before it multiplies by them.
  virtual void attention_backward(const Tensor& qkv, double scale, const AttentionDropout& dropout,
                                  const Tensor& log_sums, const Tensor& dy, Tensor& dqkv, Tensor& workspace) const = 0;
  /// Bytes that a pass over qkv needs.
  virtual std::int64_t attention_workspace(const Tensor& qkv, AttentionPass pass) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class AttentionKernelsOn final : public AttentionKernels {
 public:
  explicit AttentionKernelsOn(Context& context) : context_(context) {}

  void attention(const Tensor& qkv, double scale, const AttentionDropout& dropout, Tensor& y, Tensor& log_sums,
                 Tensor& workspace) const override;
  void attention_backward(const Tensor& qkv, double scale, const AttentionDropout& dropout, const Tensor& log_sums,
                          const Tensor& dy, Tensor& dqkv, Tensor& workspace) const override;
  std::int64_t attention_workspace(const Tensor& qkv, AttentionPass pass) const override;

 private:
  Context& context_;
};

}  // namespace heddle
