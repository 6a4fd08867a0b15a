// Verification: do two images show one person? The protocol of Labeled Faces in the Wild (Huang et al. 2007) as
// InsightFace computes it. A pair counts as one person when the squared distance of its unit vectors is below a
// threshold, one of 0, 0.01 ... 3.99. Pure functions, on the calling thread's OpenMP team.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/training/evaluation/protocol/compare.h"

namespace heddle {

/// The share of genuine pairs that are accepted, at a threshold that accepts at most 10^-exponent of the impostors.
struct TarAtFar {
  int exponent = 0;
  double tar = 0;
};
inline constexpr int max_far_exponent = 6;  // the exponent of the smallest false accept rate that is reported

struct Verification {
  std::int64_t pairs = 0;
  std::int64_t folds = 0;
  double accuracy = 0;
  double deviation = 0;  // population deviation over the folds
  double threshold = 0;  // squared distance: the mean of the folds' thresholds, or the one that was given
  // The rates for which there are at least 10^exponent impostor pairs.
  std::vector<TarAtFar> tar_at_far{};
};

/// The largest number of folds, up to `max_folds`, that have at least two pairs each; nothing if there are too few
/// pairs for two folds.
std::optional<std::int64_t> fold_count(std::size_t pairs, std::int64_t max_folds = 10);

/// The whole protocol. The pairs are cut into contiguous folds; if the pairs do not divide evenly, the first folds have
/// one more. Each fold is evaluated at the threshold that is best on the other folds (the lowest of equals). If a fold
/// had pairs of one kind only, as with LFW's view 1, which lists all genuine pairs first, the two kinds are first mixed
/// evenly, each in its order. Error if there are fewer than two folds.
Verification verify(std::span<const ComparedPair> pairs, std::int64_t folds = 10);

/// Evaluates all pairs at a threshold that was chosen on other pairs. The accuracy is the share of all pairs that are
/// classified correctly, and the deviation is taken over the same folds as in `verify`.
Verification verify_at(double threshold, std::span<const ComparedPair> pairs, std::int64_t folds = 10);

/// The threshold that classifies most of the pairs correctly; the lowest of equals.
double best_threshold(std::span<const ComparedPair> pairs);

/// The share of genuine pairs that are accepted at each false accept rate from 10^-first to 10^-max_far_exponent for
/// which there are enough impostor pairs. Accepted pairs are nearer than the nearest impostor pair that must be
/// refused.
std::vector<TarAtFar> tar_at_far(std::span<const ComparedPair> pairs, int first = 1);

/// Embeddings of images and the labels of their people, with labels.size() rows.
struct Embeddings {
  std::span<const float> values;
  std::span<const std::int64_t> labels;
};

struct DrawnPairs {
  std::int64_t pairs = 6000;  // for the accuracy; as many as LFW has
  std::int64_t folds = 10;
  std::int64_t impostor_pairs = 1'000'000;  // for the rates; the most pairs of each kind
};

/// Runs `verify` on balanced pairs that are drawn from the images; the rates, from 10^-3 on, are computed on further
/// drawn pairs. Empty if the images give fewer than two folds.
std::optional<Verification> verify_drawn(const Embeddings& images, const DrawnPairs& drawn, RandomKey key);

}  // namespace heddle
