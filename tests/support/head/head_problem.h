// A head with given embeddings and weights, without a backbone: its loss and gradients, and the gradients by finite
// differences.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "layers/head/head.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/head/head_samples.h"

namespace heddle::test {

struct Problem {
  HeadConfig config;
  std::int64_t dimension = 0;
  std::vector<double> embeddings;  // [B, d]
  std::vector<double> weights;     // [C * sub_centres, d]
  std::vector<std::int64_t> labels;
  std::vector<double> biases{};          // [C]; of a head that has them
  std::vector<double> sample_weights{};  // [B]; if empty, 1
  std::vector<double> running{};         // the margin's running statistics; if empty, the initial ones

  std::int64_t batch() const { return static_cast<std::int64_t>(labels.size()); }
};

struct Answer {
  double loss = 0;
  std::vector<double> losses;  // one per row, if loss_reduction is reduce_scatter
  std::vector<double> embedding_gradient;
  std::vector<double> weight_gradient;
  std::vector<double> bias_gradient;
};

/// The head over the ranks of a mesh, or `ranks` ranks along dp, and `micro_batches` micro-batches.
Answer solve(const Problem& problem, const Mesh& mesh, std::int64_t micro_batches = 1, DType dtype = DType::f64);
inline Answer solve(const Problem& problem, int ranks, std::int64_t micro_batches = 1, DType dtype = DType::f64) {
  return solve(problem, Mesh(ranks), micro_batches, dtype);
}

/// The margin's running statistics after one step; they are the same on all ranks.
std::vector<double> running_after_step(const Problem& problem, const Mesh& mesh, std::int64_t micro_batches);

/// Sharded logits of cosines with a scale of 8.
Problem random_problem(std::int64_t batch, std::int64_t classes, std::int64_t dimension, std::uint64_t seed);

/// The gradient of the loss by these values: central differences of fourth order.
std::vector<double> numeric_gradient(Problem problem, std::vector<double> Problem::*values, double h = 1e-3);

}  // namespace heddle::test
