#include "experiments/training/stages/stage_pass.h"

#include <utility>

#include "experiments/training/span_names.h"
#include "framework/error.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"

namespace heddle {

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
  return micro_batch_samples(context_.experiment, rank_.mesh, micro_batch);
}

Tensor TrainingPass::load(int micro_batch) {
  const Tracer::Computing span(context_.tracer, span_names::load);
  return context_.images.read(step_, micro_batch);
}

IndexRange TrainingPass::output_samples(int micro_batch, int rank) const {
  const IndexRange all = samples(micro_batch);
  const IndexRange rows = models_.output_rows(all.size, rank, models_.copy_of(micro_batch));
  return {all.begin + rows.begin, rows.size};
}

void TrainingPass::with_heads_input(int micro_batch, const Tensor& output,
                                    const std::function<void(const HeadsInput&)>& use) {
  if (context_.before_heads) context_.before_heads();
  const auto samples_of = [&](int rank) { return output_samples(micro_batch, rank); };
  const std::vector<std::int64_t> labels = context_.batches.labels(batch_, samples_of(rank_.index));
  const auto weights_of = [&](std::size_t set, int rank) {
    return context_.batches.weights(set, batch_, samples_of(rank));
  };
  const DType wide = context_.experiment.precision().wide();
  const Tensor embedding =
      output.defined() ? in_type(output, wide) : Tensor::empty(rank_.device, {0, context_.heads->dimension()}, wide);
  use({.embedding = embedding,
       .labels = labels,
       .samples = samples_of,
       .global_batch = context_.experiment.train.batch,
       .weights = weights_of,
       .while_reducing = context_.update_heads});
}

Tensor TrainingPass::loss(int micro_batch, const Tensor& output) {
  HeadsOutput result;
  with_heads_input(micro_batch, output,
                   [&](const HeadsInput& input) { result = context_.heads->forward_backward(input); });
  return take(std::move(result), output.defined() ? output.dtype() : std::optional<DType>());
}

void TrainingPass::broadcast_for_loss(int micro_batch, const Tensor& output) {
  const std::optional<DType> dtype = output.defined() ? output.dtype() : std::optional<DType>();
  with_heads_input(micro_batch, output, [&](const HeadsInput& input) {
    parts_.broadcast(micro_batch, *context_.heads, input,
                     [this, dtype](HeadsOutput result) { return take(std::move(result), dtype); });
  });
}

Tensor TrainingPass::take(HeadsOutput result, std::optional<DType> dtype) {
  add_losses(result.loss_sums);
  if (!dtype) return {};
  Tensor gradient = std::exchange(result.embedding_gradient, Tensor());
  if (context_.loss_scale != 1)
    rank_.device.backend().elementwise().scale_add(context_.loss_scale, gradient, 0, gradient);
  return in_type(gradient, *dtype);
}

void TrainingPass::add_losses(const std::vector<Tensor>& sums) {
  if (!rank_.device.has_data() || !sums.front().defined()) return;
  losses_.resize(sums.size());
  for (std::size_t head = 0; head < sums.size(); ++head) losses_[head] += sums[head].item();
}

Tensor ForwardPass::loss(int /*micro_batch*/, const Tensor& /*output*/) {
  fail("a forward pass has no loss");
}

}  // namespace heddle
