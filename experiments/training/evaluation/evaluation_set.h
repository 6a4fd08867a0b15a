// The sets that an experiment is evaluated by: `evaluation.sets`, opened and then judged.
#pragma once

#include <string>
#include <vector>

#include "experiments/training/evaluation/evaluated_set.h"
#include "experiments/training/evaluation/image_list.h"
#include "experiments/training/evaluation/protocol/templates.h"
#include "experiments/training/trainer.h"

namespace heddle {

/// Images, and what is compared: pairs of them, pairs of templates, or probes with a gallery.
struct EvaluationSet {
  std::string name;
  std::string threshold_from;
  ImageList images{};
  std::vector<Pair> pairs{};               // of templates if there are some, else of images
  std::vector<TemplateImage> templates{};  // their images
  std::int64_t template_count = 0;
  std::vector<std::int64_t> labels{};  // of the images of the gallery, then of the probes
  std::int64_t gallery = 0;            // images in the gallery; 0: nobody is identified
};

/// Opens the sets of an experiment. `data` must outlive them: their preprocessing is that of all images, and drawn sets
/// are drawn from them. InputError if a set cannot be used: a list is wrong, an image is not there or is none, or there
/// are too few pairs of one kind.
std::vector<EvaluationSet> open_sets(const Experiment& experiment, const Dataset& data);

/// Embeds the images of each set, and verifies its pairs or identifies its probes. Rank 0 gets the results; other
/// ranks, and all ranks on plan, get none. A collective call.
std::vector<EvaluatedSet> evaluate_sets(const EvaluationConfig& config, const std::vector<EvaluationSet>& sets,
                                        Trainer& trainer);

}  // namespace heddle
