// Attention between the tokens of a sample.
#pragma once

#include <optional>

#include "framework/autograd/autograd.h"
#include "framework/kernels/attention.h"

namespace heddle {

/// Softmax attention of each sample and head, dropout(softmax(scale * q k^T)) v (Vaswani et al. 2017). qkv
/// [N, T, H * 3 * D] has for each token the query, key and value of the first head, then those of the second, and so
/// on. Gives [N, T, H * D]. `scale` is D^-1/2 if empty. Neither pass holds the scores of all samples: the backward pass
/// computes them, and draws what dropout keeps, again (Dao et al. 2022). 16-bit inputs have scores in f32.
Variable attention(const Variable& qkv, std::int64_t heads, std::optional<double> scale = {},
                   const AttentionDropout& dropout = {});

}  // namespace heddle
