// Where a model is cut into stages, and what crosses a cut: pure functions of description and plan. A cut at position k
// lies before application k; stages are ranges of applications between cuts.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensors/dtype.h"
#include "layers/planner/placement_plan.h"

namespace heddle {

struct StageCut {
  /// Of each stage the first application, ascending from 0.
  std::vector<int> begins{0};
  int end = 0;  // the number of applications

  int stages() const { return static_cast<int>(begins.size()); }
  ShardRange stage(int index) const;
  int stage_of(int application) const;
  bool operator==(const StageCut&) const = default;
};

/// A value in one placement: as a layer makes it, or as readers want it.
struct ValueForm {
  int value = 0;
  Placements where{};
  /// Index of the form that this one is redistributed from; its own where a layer makes it.
  std::size_t origin = 0;
  /// The application that makes it, or the first reader that wants it so: it comes to be right before that one runs.
  /// -1: the model's input.
  int from = -1;
  /// The last application that reads it, be it for a redistribution; their number: it is read after the last one.
  int until = -1;
};

/// All forms of a model's values. A form that is read before a cut and after it crosses the cut, so that nothing is
/// made or redistributed twice; a value that is read several stages later passes through those between.
class ValueForms {
 public:
  ValueForms(const ModelDescription& model, const PlacementPlan& plan);

  /// In the order in which they are first wanted, a value's first one as its layer makes it.
  const std::vector<ValueForm>& all() const { return forms_; }
  /// What an application reads, as indices into all().
  const std::vector<std::size_t>& inputs(int application) const {
    return inputs_[static_cast<std::size_t>(application)];
  }
  /// What it makes.
  std::size_t output(int application) const { return made_[static_cast<std::size_t>(application) + 1]; }
  /// What crosses a cut at `position`, ascending. At 0 that is the model's input, after the last application its
  /// result as the plan's output.
  std::vector<std::size_t> crossing(int position) const;

 private:
  std::size_t read(int value, const Placements& where, int reader);

  std::vector<ValueForm> forms_;
  std::vector<std::vector<std::size_t>> inputs_;  // of each application
  std::vector<std::size_t> made_;                 // of each value: its first form
  std::size_t result_ = 0;
};

/// Of what crosses a cut for one micro-batch of so many samples, what a rank sends to the next stage and gets back as
/// gradients. At the coordinates 0, 0, 0 it is no less than elsewhere.
struct CrossingBytes {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};
CrossingBytes crossing_bytes(const ModelDescription& model, const PlacementPlan& plan, const ValueForms& forms,
                             int position, std::int64_t samples, DType dtype, const Mesh::Coordinates& at = {});

}  // namespace heddle
