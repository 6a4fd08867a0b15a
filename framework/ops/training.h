// Operations that only training has.
#pragma once

#include "framework/autograd/autograd.h"
#include "framework/scalars/draw.h"

namespace heddle {

/// Zeroes each element with `probability` and scales the others by 1 / (1 - probability). `window` says where
/// x lies in the whole activation (a number says where it begins), so the mask is the same however the batch and the
/// channels are cut.
Variable dropout(const Variable& x, double probability, const DrawKey& key, const DrawWindow& window);

/// Which of their tokens the samples of a batch keep, and in which order.
struct TokenMask {
  std::int64_t tokens = 0;  // of one sample
  std::int64_t kept = 0;    // of these
  /// i64 [n * tokens], rows of the batch's tokens: first those that are kept, sample by sample, then the masked ones.
  Tensor order{};
};
/// Draws which `kept` of its `tokens` each of n samples keeps; all sets of tokens are equally likely. `first_sample` is
/// the place of the first sample in the global batch: a sample's draws depend on the key and its own place only.
TokenMask draw_token_mask(Device& device, std::int64_t samples, std::int64_t tokens, std::int64_t kept,
                          const DrawKey& key, std::int64_t first_sample);
/// [n, tokens, d] -> [n, kept, d]: leaves the masked tokens out (He et al., "Masked autoencoders are scalable vision
/// learners", 2022).
Variable mask_tokens(const Variable& x, const TokenMask& mask);
/// [n, kept, d] -> [n, tokens, d]: puts the kept tokens back in their places, and mask_token [1, 1, d] into the others.
Variable restore_tokens(const Variable& x, const Variable& mask_token, const TokenMask& mask);

}  // namespace heddle
