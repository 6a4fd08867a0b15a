// The memory in which a thread computes one sample and head.
#pragma once

#include <cstdint>

#include "framework/kernels/attention.h"

namespace heddle::cpu {

/// Matrices of the compute type: [T, T] for scores, in the backward pass also for their gradients; [T] for the factors
/// of dropout, in the forward pass also for the inverse sums of exponentials. For 16-bit tensors also copies [T, D] of
/// queries, keys, values and the output or its gradient, in the backward pass also of the gradients of queries, keys
/// and values.
struct AttentionScratch {
  std::int64_t vectors;  // elements of a [T, D]
  std::int64_t scores;   // elements of a [T, T]
  std::int64_t bytes;    // of all that a thread has

  AttentionScratch(const Shape& qkv, DType dtype, AttentionPass pass);
};

/// Bytes of workspace for a thread team.
std::int64_t attention_needs(int threads, const Shape& qkv, DType dtype, AttentionPass pass);

}  // namespace heddle::cpu
