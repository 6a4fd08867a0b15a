// Trains a model under a layout and collects the values to compare (docs/conventions.md, convention 2): losses,
// gradients, weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/training/trainer.h"
#include "tests/support/devices.h"

namespace heddle::test {

/// The axes of a head whose classes are on the last stage's ranks.
inline constexpr AxisSet last_stage{Axis::dp, Axis::tp};

/// A pipeline with this schedule. `chunks`: stages of each rank; 0: as many as the schedule has by default.
inline PipelineConfig pipeline_by(const char* schedule, std::int64_t chunks = 0) {
  PipelineConfig pipeline;
  pipeline.schedule = schedule;
  pipeline.chunks = chunks;
  return pipeline;
}

struct Layout {
  Mesh mesh{};
  std::int64_t micro_batches = 1;
  Logits logits = Logits::sharded;
  PipelineConfig pipeline{};
  AxisSet over = every_axis;          // the axes of the head
  std::vector<std::int64_t> split{};  // of its classes
};

/// Draws at least one axis.
inline AxisSet random_axes(RandomStream& draws) {
  return AxisSet::of_index(1 + static_cast<unsigned>(draws.below(every_axis.index())));
}

/// Numbers of classes of this many ranks, some of which may have none.
inline std::vector<std::int64_t> random_split(RandomStream& draws, std::int64_t classes, int ranks) {
  std::vector<std::int64_t> split;
  for (int rank = 1; rank < ranks; ++rank) {
    split.push_back(static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(classes) + 1)));
    classes -= split.back();
  }
  split.push_back(classes);
  return split;
}

/// The serial reference of a layout: one rank, as many micro-batches as the layout has sample groups. Synchronised
/// norms make the groups of a micro-batch one.
inline Layout reference_of(const Layout& layout, bool synchronized = false) {
  return {Mesh(), layout.micro_batches * (synchronized ? 1 : layout.mesh.size(Axis::dp)), Logits::sharded};
}

using Tensors = std::map<std::string, std::vector<double>>;

struct Outcome {
  std::vector<double> losses;
  Tensors gradients;  // after the first step, before clipping
  Tensors weights;    // after the last step, running statistics included
  Tensors state;      // all that a checkpoint keeps, after the last step
};

/// The steps of a training run, and functions that each rank calls before and after them.
struct Course {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::function<void(Trainer&)> before = [](Trainer&) {};
  std::function<void(Trainer&)> after = [](Trainer&) {};
};

using ModelPointer = std::shared_ptr<const ModelSpec>;

Outcome train(Experiment experiment, const ModelPointer& model, const Layout& layout, const Course& course);
inline Outcome train(const Experiment& experiment, const ModelPointer& model, const Layout& layout,
                     std::int64_t steps) {
  return train(experiment, model, layout, Course{.end = steps});
}

/// Compares losses, gradients and weights after three steps with those of the layout's reference, within the tolerance
/// of the dtype.
void check_against_reference(const Experiment& experiment, const ModelPointer& model, const Layout& layout,
                             bool synchronized = false);
/// Compares two layouts in the same way.
void check_close(const Experiment& experiment, const ModelPointer& model, const Layout& layout, const Layout& other);
/// Checks that losses, gradients and weights after two steps have the same bits with both layouts.
void check_same_bits(const Experiment& experiment, const ModelPointer& model, const Layout& a, const Layout& b);

/// The peak bytes of each rank in each category and in the host's memory, and the bytes that it sent, in one step; on
/// plan, what the tested backend would hold and send.
struct Use {
  std::vector<std::int64_t> bytes;
  std::int64_t sent = 0;
  std::int64_t offloaded = 0;
  bool operator==(const Use&) const = default;
};
std::vector<Use> use_of_step(Experiment experiment, const ModelPointer& model, const Layout& layout,
                             const std::string& backend = tested_backend());

/// Where two sets of tensors differ most.
struct Difference {
  double error = 0;
  std::string tensor{};
};
/// The largest of |a - b| / (|b| + sqrt(size / size of all) * |all|) over the tensors; infinite if their names differ.
Difference max_difference(const Tensors& a, const Tensors& b);

/// How far layouts of an experiment may differ from their reference: 1e-12 in f64 and 2e-5 in f32. With activations of
/// 16 bits whole layers differ in the last bit, which changes what a ReLU lets through and which element of a window is
/// the largest, in about an epsilon's share of all cases. The norm of the difference is the square root of that share;
/// the tolerance is four times that. Losses, which this hardly changes, may differ by sixteen epsilons.
struct Tolerance {
  double norms = 0;
  double losses = 0;
};
Tolerance tolerance_of(const Experiment& experiment);

/// An experiment on synthetic faces with a model of `embedding` outputs.
Experiment small_experiment(std::int64_t classes, std::int64_t batch, std::int64_t embedding, DType dtype);

}  // namespace heddle::test
