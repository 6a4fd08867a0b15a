// Embeddings of images, computed by all ranks together.
#pragma once

#include <vector>

#include "experiments/training/evaluation/evaluation_config.h"
#include "experiments/training/evaluation/image_source.h"
#include "experiments/training/trainer.h"

namespace heddle {

/// Row-major embeddings [images, d]. Each rank embeds its share of the images, and rank 0 receives all embeddings;
/// other ranks, and all ranks of a plan, receive none. With `flip`, the embeddings of an image and of its mirror image
/// are added. If an image is broken, all ranks return nothing, and trainer.has_broken_image() is true. A collective
/// call.
std::vector<float> embed_images(const EvaluationConfig& config, const ImageSource& images, Trainer& trainer);

}  // namespace heddle
