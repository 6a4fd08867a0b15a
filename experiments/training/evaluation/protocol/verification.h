// Verification: do two images show one person? The protocol of Labeled Faces in the Wild (Huang et al. 2007) as
// InsightFace computes it. A pair counts as one person when the squared distance of its unit vectors is below a
// threshold, one of 0, 0.01 ... 3.99. Pure functions, on the calling thread's OpenMP team.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/training/evaluation/protocol/unit_rows.h"

namespace heddle {

/// The share of genuine pairs that are accepted where at most 10^-exponent of the impostors may be.
struct TarAtFar {
  int exponent = 0;
  double tar = 0;
};
inline constexpr int smallest_far = 6;  // the exponent of the least false accept rate that is reported

struct Verification {
  std::int64_t pairs = 0;
  std::int64_t folds = 0;
  double accuracy = 0;
  double deviation = 0;  // population deviation over the folds
  double threshold = 0;  // squared distance: the mean of the folds' thresholds, or the one that was given
  // As far as the pairs carry it: for rates of which there are at least 10^exponent impostor pairs.
  std::vector<TarAtFar> tar_at_far{};
};

/// The most folds, each of at least two pairs; 0 if these are fewer than two.
std::int64_t fold_count(std::size_t pairs, std::int64_t most = 10);

/// The protocol in full. The pairs are cut into contiguous folds, the first ones longer by a pair where they do not
/// come out even; each fold is judged by the threshold that is best on the others (the lowest of equals). If a fold had
/// pairs of one kind only, as with LFW's view 1, which lists all genuine pairs first, the two kinds are first mixed
/// evenly, each in its order. Error if there are fewer than two folds.
Verification verify(std::span<const ComparedPair> pairs, std::int64_t folds = 10);

/// All pairs judged by this threshold, which other pairs have taught: the accuracy is the share that is judged rightly,
/// and the deviation that of the same folds.
Verification verify_at(double threshold, std::span<const ComparedPair> pairs, std::int64_t folds = 10);

/// The threshold by which most of all pairs are judged rightly; the lowest of equals.
double best_threshold(std::span<const ComparedPair> pairs);

/// For each false accept rate from 10^-first to 10^-smallest_far that the pairs carry: the share of genuine pairs that
/// are nearer than the nearest impostor pair that may not pass.
std::vector<TarAtFar> tar_at_far(std::span<const ComparedPair> pairs, int first = 1);

/// Embeddings of images whose people are known: labels.size() rows.
struct Embeddings {
  std::span<const float> values;
  std::span<const std::int64_t> labels;
};

struct DrawnPairs {
  std::int64_t pairs = 6000;  // for the accuracy; LFW has as many
  std::int64_t folds = 10;
  std::int64_t impostor_pairs = 1'000'000;  // at most, for the false accept rates; also the most genuine pairs
};

/// `verify` on balanced pairs that are drawn from the images, and the rates from 10^-3 on drawn pairs of their own. No
/// result where the images give fewer than two folds.
std::optional<Verification> verify_drawn(const Embeddings& images, const DrawnPairs& drawn, RandomKey key);

}  // namespace heddle
