// Opens and evaluates the sets of an experiment, `evaluation.sets`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/training/evaluation/evaluated_set.h"
#include "experiments/training/evaluation/image_source.h"
#include "experiments/training/evaluation/protocol/templates.h"
#include "experiments/training/trainer.h"

namespace heddle {

/// Images and what is compared: pairs of images, pairs of templates, or probes with a gallery.
struct EvaluationSet {
  std::string name;
  std::string threshold_from;
  ImageSource images{};
  std::vector<Pair> pairs{};               // pairs of templates if there are any, otherwise of images
  std::vector<TemplateImage> templates{};  // the images of the templates
  std::int64_t template_count = 0;
  std::vector<std::int64_t> labels{};     // people of the gallery's images, then of the probes
  std::optional<std::int64_t> gallery{};  // number of images in the gallery; none in a set of pairs
};

/// Opens the sets of an experiment. `data` must outlive them: its preprocessing is used for all images, and drawn sets
/// read its test images. InputError if a set cannot be used: a list is wrong, an image is missing or broken, or there
/// are too few pairs of one kind.
std::vector<EvaluationSet> open_sets(const Experiment& experiment, const Dataset& data);

/// Embeds the images of each set by the averages of the weights, if the trainer keeps these, and verifies its pairs or
/// identifies its probes. Rank 0 receives the results; other ranks, and all ranks of a plan, receive none, and no rank
/// does if an image is broken, after which trainer.has_broken_image() is true. A collective call.
std::vector<EvaluatedSet> evaluate_sets(const EvaluationConfig& config, const std::vector<EvaluationSet>& sets,
                                        Trainer& trainer);

}  // namespace heddle
