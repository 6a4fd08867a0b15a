#include "layers/head/head_costs.h"

#include <algorithm>

#include "layers/head/class_sample.h"
#include "layers/head/deferred_step_table.h"
#include "layers/head/logits/logits.h"

namespace heddle {

HeadBytes head_bytes(const HeadConfig& config, const OptimizerConfig& optimizer, std::int64_t dimension,
                     std::int64_t classes, DType dtype) {
  const std::int64_t centres = config.rows_of(classes);
  const auto rows = [&](DType type) { return centres * dimension * static_cast<std::int64_t>(size_of(type)); };
  const std::int64_t biases = config.bias ? classes * static_cast<std::int64_t>(size_of(dtype)) : 0;
  HeadBytes bytes{.weights = rows(weight_type(config, dtype)) + biases};
  if (config.weights == WeightState::int8) bytes.weights += centres * static_cast<std::int64_t>(sizeof(float));
  if (config.is_replicated() || config.has_dense_gradient()) bytes.gradient = rows(dtype) + biases;
  const auto add_state = [&](std::int64_t of_weights, std::int64_t of_biases) {
    bytes.optimizer += of_weights + of_biases;
    bytes.bias_optimizer += of_biases;
  };
  if (const auto type = momentum_type(config, optimizer, dtype)) add_state(rows(*type), biases);
  if (optimizer.type == OptimizerType::adamw) add_state(rows(dtype), biases);
  const auto deferred = [](std::int64_t count) {
    return count * static_cast<std::int64_t>(sizeof(std::int32_t)) + DeferredStepTable::bytes;
  };
  if (config.defers_steps()) add_state(deferred(centres), config.bias ? deferred(classes) : 0);
  return bytes;
}

int head_products(const HeadConfig& config, bool clips_norm) {
  const int of_phase_1 = 2;  // the logits and the embeddings' gradient
  const int of_phase_2 = config.stash ? 1 : 2;
  return of_phase_1 + (clips_norm && !config.is_replicated() ? 2 : 1) * of_phase_2;
}

std::int64_t tile_rows(const HeadConfig& config, std::int64_t dimension) {
  // About 2 MiB of f32 weights: these, their products and their gradient fit together into a core's cache.
  const std::int64_t usual = std::clamp<std::int64_t>((std::int64_t{1} << 19) / dimension, 256, 8192);
  return config.rows_of(config.tile > 0 ? config.tile : std::max<std::int64_t>(usual / config.sub_centres, 1));
}

namespace {

/// What the ranks exchange that have the same classes.
std::vector<LayerCollective> collectives_of_copies(const HeadConfig& config, std::int64_t dimension, const Mesh& mesh,
                                                   DType dtype, bool clips_norm) {
  using When = LayerCollective::When;
  const AxisSet copies = mesh.larger_than_one(config.copy_axes());
  if (copies.empty()) return {};
  std::vector<LayerCollective> collectives;
  const auto add = [&](When when, std::int64_t elements, DType type) -> LayerCollective& {
    return collectives.emplace_back(LayerCollective{when, Operation::all_reduce, copies, elements, type});
  };
  if (const AxisSet axes = mesh.larger_than_one(config.sample_axes());
      config.loss_reduction == LossReduction::all_reduce && !axes.empty())
    collectives.push_back({When::forward, Operation::all_reduce, axes, 1, dtype});
  if (!initial_running(config.margin).empty()) add(When::step_end, 3, DType::f64);
  const std::int64_t classes =
      sampled_of(config.sample.rate, config.classes_of(mesh.size(config.class_axes()), 0).size);
  const std::int64_t rows = config.rows_of(classes);
  if (config.is_replicated()) {
    add(When::step_end, rows * dimension, dtype);
    if (config.bias) add(When::step_end, classes, dtype);
    return collectives;
  }
  const auto add_tiles = [&](std::int64_t size, std::int64_t tiles) {
    const std::int64_t times = tiles * (clips_norm ? 2 : 1);
    if (times == 0) return;
    add(When::step_end, size * dimension, dtype).times = times;
    if (config.bias) add(When::step_end, size, dtype).times = times;
  };
  const std::int64_t tile = tile_rows(config, dimension);
  add_tiles(tile, rows / tile);
  add_tiles(rows % tile, rows % tile > 0 ? 1 : 0);
  return collectives;
}

}  // namespace

std::int64_t numbers_in_parts(const HeadConfig& config, DType dtype) {
  return constant_reference(config, dtype) ? 2 : 3;
}

std::vector<LayerCollective> head_collectives(const HeadConfig& config, std::int64_t dimension, const HeadRows& rows,
                                              const Mesh& mesh, DType dtype, bool clips_norm, HeadWork work) {
  using When = LayerCollective::When;
  std::vector<LayerCollective> collectives = collectives_of_copies(config, dimension, mesh, dtype, clips_norm);
  const bool scatters = config.loss_reduction == LossReduction::reduce_scatter;
  const AxisSet all = mesh.larger_than_one(config.axes());
  if (scatters && !all.empty()) collectives.push_back({When::forward, Operation::all_reduce, all, 1, dtype});
  const AxisSet shared = mesh.larger_than_one(config.class_axes());
  if (shared.empty()) return collectives;
  const auto add = [&](When when, Operation operation, std::int64_t elements, DType type) -> LayerCollective& {
    return collectives.emplace_back(LayerCollective{when, operation, shared, elements, type});
  };
  const int ranks = mesh.size(shared);
  const std::int64_t classes = config.classes_of(ranks, 0).size;
  // The ranks' parts of these are proportional to their rows.
  const auto gather_rows = [&](std::int64_t width, DType type) {
    add(When::forward, Operation::all_gather, rows.of_group * width, type).sent = (ranks - 1) * rows.of_first * width;
  };
  gather_rows(dimension, dtype);
  gather_rows(1, DType::i64);
  const RowStatistic asked = row_statistic(config.margin);
  if (asked == RowStatistic::inverse_norm) gather_rows(1, dtype);
  if (asked == RowStatistic::target_cosine) add(When::forward, Operation::all_reduce, rows.of_group, dtype);
  if (asked == RowStatistic::target_radius) add(When::forward, Operation::all_reduce, 2 * rows.of_group, dtype);
  // One number per class: inverse norms, unless they were already used to find the nearest centres, and biases.
  const auto add_vectors = [&](Operation operation) {
    if (config.normalize && config.sub_centres == 1) add(When::forward, operation, config.classes, dtype);
    if (config.bias) add(When::forward, operation, config.classes, dtype);
  };
  const auto scatter_losses = [&](Operation operation) {
    if (scatters) add(When::forward, operation, rows.of_group, dtype).sent = rows.of_group - rows.of_first;
  };
  const auto reduce_sums = [&] {
    const std::int64_t sums = (scatters ? 1 : 2) * rows.of_group;
    add(When::forward, Operation::all_reduce, sums, DType::f64);
    scatter_losses(Operation::reduce_scatter);
  };
  switch (config.logits) {
    case Logits::gathered:
      add(When::forward, Operation::gather, rows.of_group * config.classes, dtype);
      add_vectors(Operation::gather);
      add(When::forward, Operation::broadcast, (scatters ? 1 : 2) * rows.of_group, dtype);
      scatter_losses(Operation::scatter);
      add(When::backward, Operation::scatter, rows.of_group * config.classes, dtype).sent =
          rows.of_group * (config.classes - classes);
      break;
    case Logits::transposed: {
      const std::int64_t kept = rows.of_first * classes;
      const std::int64_t share = shard(rows.of_group, ranks, 0).size;
      add_vectors(Operation::all_gather);
      add(When::forward, Operation::all_to_all, rows.of_group * classes, dtype).sent = rows.of_group * classes - kept;
      add(When::backward, Operation::all_to_all, share * config.classes, dtype).sent =
          rows.of_first * config.classes - kept;
      gather_rows(1, dtype);
      if (!scatters) gather_rows(1, dtype);
      break;
    }
    case Logits::fused:
      if (work != HeadWork::at_once) {  // each rank sends its sums to all others (message_collectives.h)
        const std::int64_t sums = numbers_in_parts(config, dtype) * rows.of_group;
        add(When::forward, Operation::all_gather, ranks * sums, DType::f64).sent = (ranks - 1) * sums;
        break;
      }
      if (!constant_reference(config, dtype)) add(When::forward, Operation::all_reduce, rows.of_group, dtype);
      reduce_sums();
      break;
    case Logits::sharded:
      add(When::forward, Operation::all_reduce, rows.of_group, dtype);
      reduce_sums();
      break;
  }
  for (int term = 0; term < (work == HeadWork::one_exchange ? 2 : 1); ++term)
    add(When::backward, Operation::reduce_scatter, rows.of_group * dimension, dtype).sent =
        (rows.of_group - rows.of_first) * dimension;
  return collectives;
}

}  // namespace heddle
