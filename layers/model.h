// A model, or one stage of it, as one rank runs it: a range of the layers of its description, built for the rank's
// place in a plan. Where a layer takes a value in another placement than it was made in, the model redistributes it,
// once for all readers that want it so.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/layer.h"
#include "layers/stages/stage_cut.h"

namespace heddle {

class Model {
 public:
  Model() = default;
  /// The applications of `range`; all of them if there is none. `construction` is the whole model's: its next random
  /// stream is that of the first layer of all, so that the stages of every cut are born alike. Layers that are marked
  /// so are recomputed.
  Model(std::shared_ptr<const ModelDescription> description, std::shared_ptr<const PlacementPlan> plan,
        Mesh::Coordinates at, const Construction& construction, const std::optional<ShardRange>& range = {});

  /// Stretches of applications within the range, ascending, that keep their inputs only and run again in backward
  /// (segments.h). The model stays where it is while a graph of it lives.
  void set_segments(const std::vector<ShardRange>& segments);

  /// From what crosses the cut before the range (ValueForms::crossing) to what crosses the one after it: this rank's
  /// parts of the micro-batch `pass.samples`. Values are let go after their last reader; what only passes through is
  /// given back as it came.
  std::vector<Variable> forward(std::vector<Variable> inputs, const Pass& pass);
  /// Of a whole model: the last value, placed as the plan's output, from the first, placed as the plan's input.
  Variable forward(const Variable& x, const Pass& pass);

  /// How many values cross into the range, and which of them lead to parameters before it.
  std::size_t inputs() const { return all_.inputs.size(); }
  bool input_has_gradient(std::size_t input) const { return has_gradient(all_.inputs[input]); }
  std::size_t outputs() const { return all_.outputs.size(); }
  bool output_has_gradient(std::size_t output) const { return has_gradient(all_.outputs[output]); }

  /// Of the range, in model order.
  std::vector<Parameter*> parameters();
  std::vector<Buffer*> buffers();
  void end_step(Rank& rank);
  void drop_step();

  const ModelDescription& description() const { return *description_; }
  const PlacementPlan& plan() const { return *plan_; }

 private:
  /// Applications that run together. Forms are named by their index in forms_.
  struct Section {
    ShardRange applications{};
    std::vector<std::size_t> inputs{};
    std::vector<std::size_t> outputs{};
    std::vector<int> readers{};  // of each form, within the section
  };
  struct Values;

  void take_forms(const ValueForms& all);
  /// A section that leaves `outputs`, where each of `segments` counts as one reader. To `inputs` come the forms that
  /// it reads and does not make.
  Section section_of(const ShardRange& applications, std::vector<std::size_t> inputs, std::vector<std::size_t> outputs,
                     std::span<const Section> segments) const;
  std::vector<Variable> run(const Section& section, std::span<const Section> segments, std::vector<Variable> inputs,
                            const Pass& pass);
  void run_layer(std::int64_t application, Values& values);
  void run_segment(const Section& segment, Values& values);
  std::vector<Variable> recompute_later(const Section& segment, std::span<const Variable> inputs, const Pass& in);
  bool has_gradient(std::size_t form) const { return description_->has_gradient(forms_[form].value); }

  std::shared_ptr<const ModelDescription> description_;
  std::shared_ptr<const PlacementPlan> plan_;
  ShardRange range_;
  std::vector<LayerPointer> layers_;
  std::vector<ValueForm> forms_;  // those of the range; `origin` is an index into them
  // What each layer reads and makes.
  std::vector<std::vector<std::size_t>> reads_;
  std::vector<std::size_t> made_;
  Section all_;
  std::vector<Section> segments_;
};

}  // namespace heddle
