// Compares many pairs of unit vectors.
#pragma once

#include <span>
#include <vector>

#include "experiments/training/evaluation/protocol/pairs.h"
#include "experiments/training/evaluation/protocol/unit_rows.h"

namespace heddle {

/// A pair that was compared: the squared distance of its unit vectors, from 0 to 4, and whether it shows one person.
/// The distance is infinite if one of the two has no direction.
struct ComparedPair {
  double distance = 0;
  bool same = false;
};

/// How pairs are compared. The results have the same bits with each, because the dot products of unit rows are exact.
enum class ComparisonWay {
  automatic,  ///< by products where a block of the rows has enough pairs for it, otherwise one by one
  one_by_one,
  products,
};

/// Compares pairs on the calling thread's OpenMP team; the results are in the order of the pairs. Pairs of the same
/// blocks of rows are compared together, while their rows are in the cache. Besides the results, this takes 128 MiB and
/// a few MiB per thread, however many pairs there are. Error if a pair names a row that does not exist.
std::vector<ComparedPair> compare(const UnitRows& rows, std::span<const Pair> pairs,
                                  ComparisonWay way = ComparisonWay::automatic);

}  // namespace heddle
