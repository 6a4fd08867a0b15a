// A model, or one stage of it, as one rank runs it: a range of the layers of its description, built for the rank's
// place in a plan. Where a layer takes a value in another placement than it was made in, the model redistributes it,
// once for all readers that want it so.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/layer.h"
#include "layers/stage_cut.h"

namespace heddle {

class Model {
 public:
  Model() = default;
  /// The applications of `range`; all of them if there is none. `construction` is the whole model's: its next random
  /// stream is that of the first layer of all, so that the stages of every cut are born alike.
  Model(std::shared_ptr<const ModelDescription> description, std::shared_ptr<const PlacementPlan> plan,
        Mesh::Coordinates at, const Construction& construction, const std::optional<ShardRange>& range = {});

  /// From what crosses the cut before the range (ValueForms::crossing) to what crosses the one after it: this rank's
  /// parts of the micro-batch `pass.samples`. Values are let go after their last reader; what only passes through is
  /// given back as it came.
  std::vector<Variable> forward(std::vector<Variable> inputs, const Pass& pass);
  /// Of a whole model: the last value, placed as the plan's output, from the first, placed as the plan's input.
  Variable forward(const Variable& x, const Pass& pass);

  /// How many values cross into the range, and which of them lead to parameters before it.
  std::size_t inputs() const { return inputs_.size(); }
  bool input_has_gradient(std::size_t input) const { return has_gradient(inputs_[input]); }
  std::size_t outputs() const { return outputs_.size(); }
  bool output_has_gradient(std::size_t output) const { return has_gradient(outputs_[output]); }

  /// Of the range, in model order.
  std::vector<Parameter*> parameters();
  std::vector<Buffer*> buffers();
  void end_step(Rank& rank);

  const ModelDescription& description() const { return *description_; }
  const PlacementPlan& plan() const { return *plan_; }

 private:
  /// A value in one placement, and how many readers it has within the range.
  struct Form {
    int value = 0;
    Placements where{};
    std::size_t origin = 0;  // the form that it is redistributed from, if it does not come by itself
    int readers = 0;
  };

  void take_forms(const ValueForms& all, int begin, int end);
  bool has_gradient(std::size_t form) const { return description_->has_gradient(forms_[form].value); }

  std::shared_ptr<const ModelDescription> description_;
  std::shared_ptr<const PlacementPlan> plan_;
  std::vector<LayerPointer> layers_;
  std::vector<Form> forms_;
  // Indices into forms_: what each layer reads and makes, what crosses into the range and out of it.
  std::vector<std::vector<std::size_t>> reads_;
  std::vector<std::size_t> made_;
  std::vector<std::size_t> inputs_;
  std::vector<std::size_t> outputs_;
};

}  // namespace heddle
