// What one rank's part of a head costs, computed from the configuration alone: memory, operations and messages.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/head/head_config.h"
#include "layers/layer_spec.h"

namespace heddle {

/// The bytes that a rank keeps for its classes between steps. A replicated head, and a sample with a dense gradient,
/// keep the gradient too.
struct HeadBytes {
  std::int64_t weights = 0;
  std::int64_t gradient = 0;
  std::int64_t optimizer = 0;
  std::int64_t bias_optimizer = 0;  // the part of `optimizer` that belongs to biases
};

/// How many embeddings of a micro-batch the first rank of the head has, and how many all ranks have that share the
/// classes with it.
struct HeadRows {
  std::int64_t of_group = 0;
  std::int64_t of_first = 0;  // 0 if it is not in the last stage
  std::int64_t most = 0;      // of any of these ranks
};

/// The bytes for this number of classes.
HeadBytes head_bytes(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
                     std::int64_t classes, DType dtype);
/// The number of products of rows, classes and features in a step: two in phase 1, and those of phase 2 as often as it
/// is computed.
int head_products(const HeadConfig& config, bool clips_norm);
/// What the ranks of a mesh exchange for a micro-batch and at the end of a step, as its first rank sees it. If
/// classes are sampled, the smallest size of a sample is counted, which does not depend on the batch.
std::vector<LayerCollective> head_collectives(const HeadConfig& config, std::int64_t dimension, const HeadRows& rows,
                                              const Mesh& mesh, DType dtype, bool clips_norm, HeadWork work);
/// The numbers per row that a rank of a head in parts sends to each other one: its sum, target logit and, if it follows
/// the logits, reference.
std::int64_t numbers_in_parts(const HeadConfig& config, DType dtype);
/// The number of rows in a tile, which the size of the embedding bounds unless the experiment sets it.
std::int64_t tile_rows(const HeadConfig& config, std::int64_t dimension);

}  // namespace heddle
