// Trains a model under a layout and collects what convention 2 compares: losses, gradients and weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/trainer.h"

namespace heddle::test {

struct Layout {
  int ranks = 1;
  std::int64_t micro_batches = 1;
  Logits logits = Logits::sharded;
};

/// The serial run that judges a layout: one rank, as many micro-batches as the layout has sample groups.
inline Layout judge_of(const Layout& layout) {
  return {1, layout.micro_batches * layout.ranks, Logits::sharded};
}

using Tensors = std::map<std::string, std::vector<double>>;

struct Outcome {
  std::vector<double> losses;
  Tensors gradients;  // of the first step, before clipping
  Tensors weights;    // after the last step, running statistics included
};

Outcome train(Experiment experiment, const ModelMaker& model, const Layout& layout, std::int64_t steps);

/// The largest of |a - b| / (|b| + sqrt(size / size of all) * |all|) over the tensors; infinite if their names differ.
double largest_error(const Tensors& a, const Tensors& b);

/// An experiment on drawn faces with a model of `embedding` outputs.
Experiment small_experiment(std::int64_t classes, std::int64_t batch, std::int64_t embedding, DType dtype);

}  // namespace heddle::test
