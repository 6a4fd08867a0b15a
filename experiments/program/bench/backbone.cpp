#include "experiments/program/bench/backbone.h"

#include <vector>

#include "framework/tensors/device.h"
#include "layers/planner/planner.h"

namespace heddle {

namespace {

constexpr ImageShape bench_image{.channels = 3, .height = 112, .width = 112};

}  // namespace

Backbone::Backbone(ModelType type, std::int64_t batch, Rank& rank, Precision precision) : rank_(rank), batch_(batch) {
  Construction construction{.device = rank.device, .key = rank.key, .precision = precision};
  {
    const MemoryScope scope(rank.device, Category::parameters);
    auto description = std::make_shared<ModelSpec>(make_model({.type = type, .vit = {.drop_path = 0}}, bench_image));
    auto plan = std::make_shared<ModelPlacement>(place(*description, {.mesh = rank.mesh, .samples = batch}));
    model_ = Model(std::move(description), std::move(plan), rank.coordinates, construction);
  }
  std::vector<TrainedWeight> trained;
  for (const Parameter* parameter : model_.parameters())
    trained.push_back({parameter->name, parameter->value, parameter->is_norm_or_bias});
  optimizer_ = make_optimizer({}, std::move(trained));
  images_ = Tensor::full(rank.device, {batch, bench_image.height, bench_image.width, bench_image.channels},
                         precision.activations, 0);
  rank.device.backend().training().fill_normal(images_, {.key = rank.key, .purpose = Purpose::test}, 0, 0, 1);
}

void Backbone::step() {
  const Variable y = model_.forward(images_, {.rank = rank_, .training = true, .step = step_, .samples = {0, batch_}});
  backward({{y, y.value().clone()}});
  std::vector<Tensor> gradients;
  for (const Parameter* parameter : model_.parameters()) gradients.push_back(parameter->gradient->gradient());
  // So small that the weights stay where they are, however many steps are timed.
  optimizer_->step(step_++, 1e-9, gradients);
  model_.end_step(rank_);
  for (Parameter* parameter : model_.parameters()) parameter->gradient->clear();
}

}  // namespace heddle
