// How good embeddings are: identification against a gallery, and verification of pairs. Pure functions of row-major
// embeddings [images, dimension], which need not be normalised. An embedding that is zero or not finite matches
// nothing. They run on the calling thread's OpenMP team.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/scalars/random.h"

namespace heddle {

/// Embeddings of images whose identities are known: labels.size() rows.
struct Embeddings {
  std::span<const float> values;
  std::span<const std::int64_t> labels;
};

/// The share of test rows whose nearest row of the gallery, by cosine, has their label. Among equally near rows the
/// first one counts.
double rank1(const Embeddings& gallery, const Embeddings& test);

struct Pair {
  std::int64_t first = 0;
  std::int64_t second = 0;
  bool same = false;
  bool operator==(const Pair&) const = default;
};

/// Draws at most `count` pairs of different images, none twice: alternately a pair of one identity and a pair of two.
/// There are fewer where the labels give fewer.
std::vector<Pair> balanced_pairs(std::span<const std::int64_t> labels, std::int64_t count, RandomKey key);

struct VerificationOptions {
  std::int64_t pairs = 6000;  ///< for the accuracy; LFW has as many
  std::int64_t folds = 10;
  std::int64_t impostor_pairs = 1'000'000;  ///< at most, for the false accept rates; also the most genuine pairs
};

struct TarAtFar {
  int exponent = 0;  ///< false accept rate 10^-exponent
  double tar = 0;
};

struct Verification {
  std::int64_t pairs = 0;
  std::int64_t folds = 0;
  double accuracy = 0;   ///< mean over the folds
  double deviation = 0;  ///< population deviation over the folds
  double threshold = 0;  ///< mean of the folds' thresholds, as squared distance of unit vectors
  /// For 10^-3 to 10^-6, as far as there are at least 10^exponent impostor pairs.
  std::vector<TarAtFar> tar_at_far;
};

/// The protocol of LFW on pairs of the given images. Accuracy: balanced pairs in contiguous folds; a pair is one person
/// when its squared distance is below a threshold, the best of 0, 0.01 ... 3.99 on the other folds (the lowest of
/// equals). True accept rate: the share of genuine pairs that are nearer than the nearest impostor pair that may not
/// pass. There are fewer folds when a fold would hold less than 2 pairs, and no result when fewer than 2 folds are
/// left.
std::optional<Verification> verification(const Embeddings& images, const VerificationOptions& options, RandomKey key);

}  // namespace heddle
