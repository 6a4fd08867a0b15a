// The checks of phase 1. Each error of a sample begins with the head's name, and names the sample by its position in
// the global batch, or with several heads by its position among the samples of the head.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/tensors/index_range.h"
#include "framework/tensors/tensor.h"
#include "layers/head/head_config.h"

namespace heddle {

/// What a head whose classes all stages share lacks for phase 1 in parts, as what it needs: `logits "fused", got
/// "sharded"`; empty if it lacks nothing. `dtype`: of the arithmetic.
std::string lacks_for_parts(const HeadConfig& config, HeadWork work, DType dtype);
/// InputError if one of the labels of the samples from `first` on is outside [0, classes).
void check_labels(const std::string& name, std::span<const std::int64_t> labels, std::int64_t first,
                  std::int64_t classes);
/// RankFailed if an embedding of this rank is not finite. `inverse_norm` [b]: of the samples from `first` on.
void check_finite_embeddings(const std::string& name, const Tensor& inverse_norm, std::int64_t first);
/// RankFailed if the embeddings' gradient is not finite. In steps without a loss nothing else would show this.
void check_finite_gradient(const std::string& name, const Tensor& gradient);
/// RankFailed if a log-sum-exp [B] is not finite. `samples`: those of each rank.
void check_finite_sums(const std::string& name, const Tensor& log_sums, const std::vector<IndexRange>& samples);

}  // namespace heddle
