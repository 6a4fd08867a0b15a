// The sets of pairs that an experiment is evaluated by: `evaluation.sets`, opened and then judged.
#pragma once

#include <string>
#include <vector>

#include "experiments/training/evaluation/evaluated_set.h"
#include "experiments/training/evaluation/image_list.h"
#include "experiments/training/trainer.h"

namespace heddle {

/// Images and which of them are compared.
struct EvaluationSet {
  std::string name;
  std::string threshold_from;
  ImageList images;
  std::vector<Pair> pairs;
};

/// Opens the sets of an experiment. `data` must outlive them: their preprocessing is that of all images, and drawn sets
/// are drawn from them. InputError if a set cannot be used: a list is wrong, an image is not there or is none, or there
/// are too few pairs of one kind.
std::vector<EvaluationSet> open_sets(const Experiment& experiment, const Dataset& data);

/// Embeds the images of each set and judges its pairs. Rank 0 gets the results; other ranks, and all ranks on plan, get
/// none. A collective call.
std::vector<EvaluatedSet> evaluate_sets(const EvaluationConfig& config, const std::vector<EvaluationSet>& sets,
                                        Trainer& trainer);

}  // namespace heddle
