// One rank's part of a run: it trains, saves and evaluates.
#pragma once

#include <atomic>
#include <memory>

#include "experiments/training/evaluation/evaluation_set.h"
#include "experiments/training/experiment.h"
#include "experiments/training/measurements/result.h"
#include "experiments/training/planning/run_plan.h"
#include "parallel/rank.h"

namespace heddle {

struct RunSettings;
class InitialWeights;
class RunObserver;

/// How all ranks of a run have agreed to end it.
struct RunEnd {
  /// The InputError of the image follows.
  std::atomic<bool> at_broken_image = false;
  /// The number of the signal; 0: none.
  std::atomic<int> by_signal = 0;
  /// All steps are done, but their checkpoint could not be written.
  std::atomic<bool> not_saved = false;
};

/// The state that all ranks of a run share. The observer is rank 0's.
struct RunContext {
  const Experiment& experiment;
  const Dataset& dataset;
  const std::vector<EvaluationSet>& sets;
  std::shared_ptr<const RunPlan> plan;
  const RunSettings& settings;
  RunObserver& observer;
  VariantResult& result;
  const InitialWeights* weights = nullptr;  // with which a training begins that is not resumed
  std::size_t notes_reported = 0;           // the number of the data set's notes that were reported before
  RunEnd* end = nullptr;
};

/// Does the rank's part. Each rank writes its own row of the result, also when it fails, and rank 0 the rest.
void run_rank(const RunContext& context, Rank& rank);

}  // namespace heddle
