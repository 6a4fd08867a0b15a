// The output of `heddle explain` for one variant: the placement of each layer on the mesh, the communication between
// ranks, and the totals per step and per rank. All of it follows from shapes, the link model and the device's profile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/training/experiment.h"
#include "layers/planner/placement_report.h"

namespace heddle {

/// A stage of the pipeline.
struct ExplainedStage {
  int rank = 0;                    // along pp
  std::optional<int> second_rank;  // of the second of two copies
  IndexRange layers{};
  // One rank's parameters, computing time and communication per step, and peak memory.
  std::int64_t parameters = 0;
  double seconds = 0;
  std::int64_t bytes = 0;
};

/// The bytes that a rank sends across the cut before a stage in one step.
struct ExplainedCut {
  std::vector<int> values{};
  PlacementTotals::Traffic forward{};
  PlacementTotals::Traffic backward{};
};

/// One of the heads.
struct ExplainedHead {
  std::string name;  // head, or of several that of the data set
  LayerCosts costs;
  AxisSet class_axes;               // along which the head's ranks have different classes
  std::vector<std::int64_t> split;  // the number of classes of each rank, if the experiment names them
};

struct Explanation {
  /// A different placement for comparison.
  struct Choice {
    std::string name;
    PlacementTotals totals;
  };

  std::string name;
  bool is_automatic = false;
  std::int64_t memory_budget = 0;  // 0: none
  PlannerOptions options;
  ModelSpec model;
  ModelPlacement placement;
  PlacementReport report;
  std::vector<ExplainedHead> heads;
  /// A single stage if there is no pipeline.
  std::vector<ExplainedStage> stages;
  std::vector<ExplainedCut> cuts;  // before each stage but the first
  PlacementTotals totals;          // of model and heads
  std::vector<Choice> choices;     // automatic only: the plain ones, and this one last
};

/// With `automatic` every layer gets the placement that makes the step shortest within the memory budget, whatever the
/// file says.
/// InputError if no placement fits into the budget.
Explanation explain(const Experiment& experiment, const std::string& name, bool automatic);

/// The stage that has a layer.
int stage_of(const Explanation& explanation, std::size_t application);
/// The layer that makes a value, or `input`.
std::string value_name(const Explanation& explanation, int value);

/// A table of at most 100 columns.
std::string explanation_text(const Explanation& explanation);
/// {"name", "variants": [..]} with stable keys; bytes, seconds and operations are per rank and step.
std::string explanations_json(const std::string& study, std::span<const Explanation> explanations);

}  // namespace heddle
