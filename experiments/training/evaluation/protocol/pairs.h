// Pairs of images for verification, and how they are drawn if no list gives them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/scalars/random.h"

namespace heddle {

/// Two images, by their numbers, and whether they show one person.
struct Pair {
  std::int64_t first = 0;
  std::int64_t second = 0;
  bool same = false;
  bool operator==(const Pair&) const = default;
};

/// Draws pairs of different images, each at most once, in an order that depends only on the seed.
class PairChooser {
 public:
  /// `labels[i]` is the person of image i; they must outlive this object.
  PairChooser(std::span<const std::int64_t> labels, RandomKey key);

  /// The number of all pairs of one person, and of two people.
  std::int64_t genuine_count() const { return genuine_; }
  std::int64_t impostor_count() const { return all_ - genuine_; }
  /// The first `count` pairs of the drawn order, or all of them if there are fewer.
  std::vector<Pair> genuine(std::int64_t count) const;
  std::vector<Pair> impostors(std::int64_t count) const;

 private:
  std::span<const std::int64_t> labels_;
  RandomKey key_;
  std::vector<std::vector<std::int64_t>> groups_;  // the images of each person
  std::vector<std::int64_t> first_pair_;           // the number of the first pair of each group
  std::int64_t genuine_ = 0;
  std::int64_t all_ = 0;
};

/// At most `count` drawn pairs, in turn one of one person and one of two people; fewer if the labels do not give as
/// many.
std::vector<Pair> balanced_pairs(const PairChooser& chooser, std::int64_t count);
std::vector<Pair> balanced_pairs(std::span<const std::int64_t> labels, std::int64_t count, RandomKey key);

}  // namespace heddle
