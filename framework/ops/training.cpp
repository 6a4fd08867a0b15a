#include "framework/ops/training.h"

#include "framework/ops/checks.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/rows.h"
#include "framework/ops/shape.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// Checks that x has `tokens` tokens of each of the mask's samples.
void check_tokens(std::string_view what, const Tensor& x, std::int64_t tokens, const TokenMask& mask) {
  check_floating(what, x);
  const std::int64_t samples = mask.order.numel() / mask.tokens;
  if (x.shape().rank() != 3 || x.shape()[0] != samples || x.shape()[1] != tokens)
    fail<InputError>("{}: expected [{},{},d], got {}", what, samples, tokens, to_string(x));
}

}  // namespace

Variable dropout(const Variable& x, double probability, const DrawKey& key, const DrawWindow& window) {
  check_floating("dropout", x.value());
  if (!(probability >= 0 && probability < 1))
    fail<InputError>("dropout: expected a probability in [0, 1), got {}", probability);
  if (probability == 0) return x;
  const auto thinned = [=](const Tensor& from) {
    Tensor to = Tensor::empty_like(from);
    from.device().backend().training().dropout(from, key, window, probability, to);
    return to;
  };
  return record(thinned(x.value()), {x}, [thinned](const Tensor& dy, Wanted) { return Gradients{thinned(dy)}; });
}

TokenMask draw_token_mask(Device& device, std::int64_t samples, std::int64_t tokens, std::int64_t kept,
                          const DrawKey& key, std::int64_t first_sample) {
  if (kept < 1 || kept >= tokens)
    fail<InputError>("draw_token_mask: expected to keep at least 1 and fewer than all of {} tokens, got {}", tokens,
                     kept);
  Tensor draws = Tensor::empty(device, {samples, tokens}, DType::f32);
  device.backend().training().fill_uniform(draws, key, first_sample * tokens, 0, 1);
  TokenMask mask{tokens, kept, Tensor::empty(device, {samples * tokens}, DType::i64)};
  Tensor first = mask.order.rows(0, samples * kept).reshape({samples, kept});
  Tensor rest = mask.order.rows(samples * kept, samples * tokens).reshape({samples, tokens - kept});
  device.backend().rows().rank_columns(draws, first, rest);
  return mask;
}

Variable mask_tokens(const Variable& x, const TokenMask& mask) {
  check_tokens("mask_tokens", x.value(), mask.tokens, mask);
  const Shape& shape = x.shape();
  const Variable rows = reshape(x, {shape[0] * mask.tokens, shape[2]});
  return reshape(gather_rows(rows, mask.order.rows(0, shape[0] * mask.kept)), {shape[0], mask.kept, shape[2]});
}

Variable restore_tokens(const Variable& x, const Variable& mask_token, const TokenMask& mask) {
  check_tokens("restore_tokens", x.value(), mask.kept, mask);
  const std::int64_t samples = x.shape()[0];
  const std::int64_t features = x.shape()[2];
  check_tensor("restore_tokens", "mask token", mask_token.value(), x.dtype(), {1, 1, features});
  const std::int64_t masked = samples * (mask.tokens - mask.kept);
  const Variable kept_rows = reshape(x, {samples * mask.kept, features});
  const Variable masked_rows =
      add(Variable(Tensor::zeros(x.device(), {masked, features}, x.dtype())), reshape(mask_token, {1, features}));
  const Variable rows = concat(std::vector{kept_rows, masked_rows}, 0);
  return reshape(scatter_rows(rows, mask.order, samples * mask.tokens), {samples, mask.tokens, features});
}

}  // namespace heddle
