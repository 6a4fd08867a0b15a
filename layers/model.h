// A model, or one stage of it, as one rank runs it: a range of the layers of its spec, built for the rank's
// coordinates on the mesh. If a layer takes a value in a different placement from the one in which it was made, the
// model redistributes the value once for all readers that want this placement.
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
  /// Builds the applications of `range`, or all of them if it is empty. `construction` is that of the whole model: its
  /// next random stream is the one of the very first layer, so that the initial weights do not depend on the cut into
  /// stages. Layers that are marked for it are recomputed.
  Model(const std::shared_ptr<const ModelSpec>& spec, const std::shared_ptr<const ModelPlacement>& placement,
        Mesh::Coordinates at, const Construction& construction, const std::optional<IndexRange>& range = {});
  /// `forms`: those of the spec in this placement, which all ranks share.
  Model(std::shared_ptr<const ModelSpec> spec, std::shared_ptr<const ModelPlacement> placement, Mesh::Coordinates at,
        const Construction& construction, const IndexRange& range, const ValueForms& forms);

  /// Ascending ranges of applications, within the model's own range, which keep only their inputs and run again in the
  /// backward pass (segments.h). The model must not be moved or destroyed while a graph of it exists.
  void set_segments(const std::vector<IndexRange>& segments);

  /// Computes the values that cross the cut after the range from those that cross the cut before it
  /// (ValueForms::crossing): this rank's parts of the micro-batch `pass.samples`. Values are freed after their last
  /// reader; those that only pass through are returned as they are.
  std::vector<Variable> forward(std::vector<Variable> inputs, const Pass& pass);
  /// The same for a whole model: computes the last value, placed as the model's output, from the first one, placed as
  /// the model's input.
  Variable forward(const Variable& x, const Pass& pass);

  /// The number of values that cross into the range, and which of them depend on parameters before it.
  std::size_t inputs() const { return all_.inputs.size(); }
  bool input_has_gradient(std::size_t input) const { return has_gradient(all_.inputs[input]); }
  std::size_t outputs() const { return all_.outputs.size(); }
  bool output_has_gradient(std::size_t output) const { return has_gradient(all_.outputs[output]); }

  /// The parameters and buffers of the range, in model order.
  std::vector<Parameter*> parameters();
  std::vector<Buffer*> buffers();
  void end_step(Rank& rank);
  void drop_step();

  const ModelSpec& spec() const { return *spec_; }

 private:
  /// Applications that run together. Forms are given by their index in forms_.
  struct Section {
    IndexRange applications{};
    std::vector<std::size_t> inputs{};
    std::vector<std::size_t> outputs{};
    std::vector<int> readers{};  // the readers of each form, within the section
  };
  struct Values;

  void take_forms(const ValueForms& all);
  /// The section of these applications that leaves `outputs`, where each of `segments` counts as one reader. Forms that
  /// it reads and does not make are added to `inputs`.
  Section section_of(const IndexRange& applications, std::vector<std::size_t> inputs, std::vector<std::size_t> outputs,
                     std::span<const Section> segments) const;
  std::vector<Variable> run(const Section& section, std::span<const Section> segments, std::vector<Variable> inputs,
                            const Pass& pass);
  void run_layer(std::int64_t application, Values& values);
  void run_segment(const Section& segment, Values& values);
  std::vector<Variable> recompute_later(const Section& segment, std::span<const Variable> inputs, const Pass& in);
  bool has_gradient(std::size_t form) const { return spec_->has_gradient(forms_[form].value); }

  std::shared_ptr<const ModelSpec> spec_;
  std::shared_ptr<const ModelPlacement> placement_;
  IndexRange range_;
  std::vector<LayerPointer> layers_;
  std::vector<ValueForm> forms_;  // the forms of the range; `origin` is an index into them
  // The forms that each layer reads, and the one that it makes.
  std::vector<std::vector<std::size_t>> reads_;
  std::vector<std::size_t> made_;
  Section all_;
  std::vector<Section> segments_;
};

}  // namespace heddle
