#include "experiments/training/stage_pass.h"

#include <utility>

#include "experiments/training/span_names.h"
#include "framework/error.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

IndexRange micro_batch_samples(const Experiment& experiment, const Mesh& mesh, std::int64_t index) {
  const std::int64_t batch = experiment.train.batch;
  const std::int64_t ranks = mesh.size(Axis::dp);
  const std::int64_t groups = experiment.train.micro_batches * ranks;
  const std::int64_t begin = shard(batch, groups, index * ranks).begin;
  return {begin, shard(batch, groups, index * ranks + ranks - 1).end() - begin};
}

std::vector<Variable> StagePass::forward(int stage, int micro_batch, std::vector<Variable> inputs, bool recomputing) {
  const Pass pass{
      .rank = rank_, .training = training_, .step = step_, .samples = samples(micro_batch), .recomputing = recomputing};
  return models_.at(stage).forward(std::move(inputs), pass);
}

std::vector<bool> StagePass::input_gradients(int stage) const {
  const Model& model = models_.at(stage);
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < model.inputs(); ++i) wanted.push_back(model.input_has_gradient(i));
  return wanted;
}

std::vector<bool> StagePass::output_gradients(int stage) const {
  const Model& model = models_.at(stage);
  std::vector<bool> given;
  for (std::size_t i = 0; i < model.outputs(); ++i) given.push_back(model.output_has_gradient(i));
  return given;
}

IndexRange TrainingPass::samples(int micro_batch) const {
  return micro_batch_samples(tools_.experiment, rank_.mesh, micro_batch);
}

std::span<const std::int64_t> TrainingPass::indices(int micro_batch, const IndexRange& rows) const {
  return batch_.subspan(static_cast<std::size_t>(samples(micro_batch).begin + rows.begin),
                        static_cast<std::size_t>(rows.size));
}

Tensor TrainingPass::load(int micro_batch) {
  const Tracer::Computing span(tools_.tracer, span_names::load);
  return tools_.images.read(step_, micro_batch);
}

Tensor TrainingPass::loss(int micro_batch, const Tensor& output) {
  const IndexRange all = samples(micro_batch);
  const IndexRange mine = models_.output_rows(all.size, rank_.index);
  std::vector<IndexRange> shared;
  for (const int rank : rank_.mesh.ranks_over(tools_.experiment.head.class_axes(), rank_.index)) {
    const IndexRange rows = models_.output_rows(all.size, rank);
    shared.push_back({all.begin + rows.begin, rows.size});
  }
  const std::vector<std::int64_t> labels = labels_of(tools_.dataset, Split::train, indices(micro_batch, mine));
  const DType wide = tools_.experiment.precision().wide();
  const Tensor embedding =
      output.defined() ? in_type(output, wide) : Tensor::empty(rank_.device, {0, tools_.head->dimension()}, wide);
  HeadOutput result = tools_.head->forward_backward({.embedding = embedding,
                                                     .labels = labels,
                                                     .samples = shared,
                                                     .global_batch = tools_.experiment.train.batch,
                                                     .while_reducing = tools_.update_head});
  if (rank_.device.has_data() && result.loss_sum.defined()) loss_ = loss_.value_or(0) + result.loss_sum.item();
  if (!output.defined()) return {};
  Tensor gradient = std::exchange(result.embedding_gradient, Tensor());
  if (tools_.loss_scale != 1) rank_.device.backend().elementwise().scale_add(tools_.loss_scale, gradient, 0, gradient);
  return in_type(gradient, output.dtype());
}

Tensor ForwardPass::loss(int /*micro_batch*/, const Tensor& /*output*/) {
  fail("a forward pass has no loss");
}

}  // namespace heddle
