// Ways to train a small network, for the tests of runs that are resumed from a checkpoint.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/training/checkpoints/checkpoint.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/normalization.h"
#include "tests/support/layouts.h"

namespace heddle::test::checkpoint_ways {

using test::Course;
using test::Layout;

/// A way to train the network below.
struct Way {
  Layout layout{};
  std::map<std::string, PlacementRequest> requests{};
  ShardedState shard = ShardedState::none;
  HeadParallel head = HeadParallel::sharded;
};

inline test::ModelPointer network(const Way& way) {
  ModelSpec model({8, 8, 3});
  model.then("conv1", Convolution::spec({.in = 3, .out = 7, .stride = 2}));
  model.then("bn1", BatchNorm::spec({.channels = 7, .activation = NormActivation::prelu, .slope_name = "prelu1"}));
  model.then("conv2", Convolution::spec({.in = 7, .out = 5}));
  model.then("bn2", BatchNorm::spec({.channels = 5, .activation = NormActivation::relu}));
  model.then("flatten", Flatten::spec());
  model.then("fc", Linear::spec({.in = 80, .out = 6}));
  for (const auto& [name, request] : way.requests) model.place(name, request);
  return std::make_shared<ModelSpec>(std::move(model));
}

inline Experiment experiment_of(const Way& way, OptimizerType optimizer = OptimizerType::sgd,
                                DType dtype = DType::f32) {
  Experiment experiment = test::small_experiment(11, 24, 6, dtype);
  experiment.train.optimizer.type = optimizer;
  experiment.train.shard = way.shard;
  experiment.head.parallel = way.head;
  return experiment;
}

/// Layouts with every axis, every partition and every way of holding state, and the serial one.
inline std::vector<Way> ways() {
  const PlacementRequest column{Parallel::column, Axis::tp};
  const PlacementRequest row{Parallel::row, Axis::tp};
  const PlacementRequest gathered{Parallel::parameter, Axis::dp};
  return {{{Mesh(), 4}},
          {{Mesh(2), 2}},
          {{Mesh(2), 2, Logits::gathered}, {{"fc", gathered}, {"conv2", gathered}}, ShardedState::optimizer},
          {{Mesh(3), 1}, {}, ShardedState::optimizer},
          {{Mesh(1, 1, 2), 4}, {{"conv1", column}, {"conv2", row}, {"fc", row}}},
          {{Mesh(2, 1, 3), 2}, {{"conv1", row}, {"conv2", column}, {"fc", column}}, ShardedState::optimizer},
          {{Mesh(1, 2), 4, Logits::fused, {}, test::last_stage}},
          {{Mesh(2, 2), 2}, {}, ShardedState::optimizer, HeadParallel::replicated},
          {{Mesh(2, 1, 2), 2, Logits::fused, {}, {Axis::dp}}},
          {{Mesh(2, 2), 2, Logits::sharded, {}, {Axis::pp}}},
          {{Mesh(1, 1, 4), 4, Logits::transposed}},
          {{Mesh(2, 1, 2), 2, Logits::sharded, {}, every_axis, {5, 0, 2, 4}}},
          {{Mesh(2, 2), 2, Logits::sharded, test::pipeline_by("interleaved", 2)},
           {{"fc", gathered}},
           ShardedState::optimizer},
          {{Mesh(1, 2), 4, Logits::sharded, test::pipeline_by("chimera"), test::last_stage}},
          {{Mesh(2, 4), 2, Logits::fused, test::pipeline_by("chimera"), {Axis::dp}},
           {{"fc", gathered}},
           ShardedState::optimizer}};
}

/// All ways; under a sanitizer every third, among them stages, tensor parallelism and a head over all ranks.
inline std::vector<Way> several_ways() {
  std::vector<Way> several;
  const std::vector<Way> all = ways();
  for (std::size_t i = 2; i < all.size(); i += 3) several.push_back(all[i]);
  return test::fewer_if_sanitized(all, several);
}

inline test::Outcome run(const Way& way, const Experiment& experiment, const Course& course) {
  return test::train(experiment, network(way), way.layout, course);
}

inline Course saving(const CheckpointFolder& folder, std::int64_t steps) {
  return {.end = steps, .after = [&folder, steps](Trainer& trainer) { folder.save(trainer, steps); }};
}

inline Course resuming(const CheckpointFolder& folder, std::int64_t first, std::int64_t end,
                       std::string* note = nullptr, SavedHead head = SavedHead::kept) {
  return {.first = first, .end = end, .before = [&folder, first, note, head](Trainer& trainer) {
            const std::string text = folder.load(trainer, first, head);
            if (note != nullptr && trainer.rank().index == 0) *note = text;
          }};
}

}  // namespace heddle::test::checkpoint_ways
