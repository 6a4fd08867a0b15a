// The evaluation of a data set's own test images.
#pragma once

#include "experiments/training/measurements/result.h"
#include "experiments/training/trainer.h"

namespace heddle {

/// Verifies pairs of test images, and identifies them among the training images if they show people of the training, by
/// the averages of the weights if the trainer keeps these. Only rank 0 receives the results, and none on plan. If an
/// image is broken, all ranks return early, and trainer.has_broken_image() is true. A collective call.
void evaluate_test_images(Evaluation& evaluation, Trainer& trainer);

}  // namespace heddle
