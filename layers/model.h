// A model as one rank runs it: the layers of its description, built for the rank's place in a plan. Where a layer takes
// a value in another placement than it was made in, the model redistributes it, once for all readers that want it so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/layer.h"
#include "layers/placement_plan.h"

namespace heddle {

class Model {
 public:
  Model() = default;
  Model(std::shared_ptr<const ModelDescription> description, PlacementPlan plan, Mesh::Coordinates at,
        Construction& construction);

  /// The last value, placed as the plan's output, for this rank's part of the micro-batch `pass.samples`, placed as the
  /// plan's input. Values are let go after their last reader.
  Variable forward(const Variable& x, const Pass& pass);
  /// In model order.
  std::vector<Parameter*> parameters();
  std::vector<Buffer*> buffers();
  void end_step(Rank& rank);

  const ModelDescription& description() const { return *description_; }
  const PlacementPlan& plan() const { return plan_; }

 private:
  /// A value in one placement, and how many readers are still to come.
  struct Form {
    Placements where;
    int readers = 0;
    Variable value{};
  };

  std::shared_ptr<const ModelDescription> description_;
  PlacementPlan plan_;
  std::vector<LayerPointer> layers_;
  /// Of each value: the placement in which it is made, then those that its readers want.
  std::vector<std::vector<Form>> forms_;
};

}  // namespace heddle
