// The cut of a model into stages, and the values that cross it: pure functions of the model's spec and placement. A cut
// at position k lies before application k; stages are the ranges of applications between cuts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/tensors/dtype.h"
#include "layers/planner/model_placement.h"

namespace heddle {

struct StageCut {
  /// The first application of each stage, ascending from 0.
  std::vector<int> begins{0};
  int end = 0;  // the number of applications

  int stages() const { return static_cast<int>(begins.size()); }
  IndexRange stage(int index) const;
  int stage_of(int application) const;
  bool operator==(const StageCut&) const = default;
};

/// A value in one placement: the one in which a layer makes it, or one in which readers want it.
struct ValueForm {
  int value = 0;
  Placements where{};
  /// The index of the form that this one is redistributed from; its own index if a layer makes it.
  std::size_t origin = 0;
  /// The application that makes it, or the first reader that wants it in this placement, right before which it is
  /// redistributed. Empty, which is less than every number, for the model's input.
  std::optional<int> from{};
  /// The last application that reads it, also for a redistribution; the number of applications if it is read after the
  /// last one. Empty if nothing reads it.
  std::optional<int> until{};
};

/// All forms of a model's values. A form that exists before a cut and is read after it crosses the cut, so that nothing
/// is made or redistributed twice; a value that is read several stages later passes through the stages between.
class ValueForms {
 public:
  ValueForms(const ModelSpec& model, const ModelPlacement& placement);

  /// In the order in which they are first wanted; the first form of a value is the one that its layer makes.
  const std::vector<ValueForm>& all() const { return forms_; }
  /// The forms that an application reads, as indices into all().
  const std::vector<std::size_t>& inputs(int application) const {
    return inputs_[static_cast<std::size_t>(application)];
  }
  /// The form that it makes.
  std::size_t output(int application) const { return made_[static_cast<std::size_t>(application) + 1]; }
  /// The forms that cross a cut at `position`, ascending. At 0 that is the model's input; after the last application it
  /// is the model's result, placed as its output.
  std::vector<std::size_t> crossing(int position) const;

 private:
  std::size_t read(int value, const Placements& where, int reader);

  std::vector<ValueForm> forms_;
  std::vector<std::vector<std::size_t>> inputs_;  // one list per application
  std::vector<std::size_t> made_;                 // of each value: its first form
  std::size_t result_ = 0;
};

/// The bytes that a rank sends to the next stage, and receives back as gradients, for one micro-batch of `samples`
/// samples at a cut, with the shapes of training or of evaluation. No other rank has more than the one at the
/// coordinates 0, 0, 0.
struct CrossingBytes {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};
CrossingBytes crossing_bytes(const ModelSpec& model, const ModelPlacement& placement, const ValueForms& forms,
                             int position, std::int64_t samples, DType dtype, bool in_training = true,
                             const Mesh::Coordinates& at = {});

}  // namespace heddle
