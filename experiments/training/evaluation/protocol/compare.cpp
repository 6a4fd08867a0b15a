#include "experiments/training/evaluation/protocol/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// Rows of a block. Two blocks of 512 numbers per row are 1 MiB, which caches hold while their pairs are compared.
constexpr std::size_t block_rows = 256;
/// Pairs are grouped only if two blocks have at least this many on average; with fewer, reading whole blocks would save
/// nothing.
constexpr std::size_t min_in_cell = 512;
/// The number of pairs that are grouped at a time; their places take 128 MiB.
constexpr std::size_t max_grouped = std::size_t{1} << 24;
/// The product of two blocks computes all of its elements, each in less than half of the time of a comparison by
/// itself. It is taken if at least this share of the elements is wanted.
constexpr double share_for_product = 0.4;

/// A pair's place in its list and its rows in their blocks.
struct Place {
  std::uint32_t pair = 0;
  std::uint8_t first = 0;
  std::uint8_t second = 0;
};
static_assert(block_rows - 1 <= std::numeric_limits<decltype(Place::first)>::max());

using Doubles = double __attribute__((vector_size(32)));
constexpr std::size_t lanes = 4;

Doubles load(const double* from) {
  Doubles values;
  std::memcpy(&values, from, sizeof(values));
  return values;
}

/// The dot products of all rows of two blocks, tile by tile of 4 x 8 elements, which stay in registers.
class BlockProduct {
 public:
  explicit BlockProduct(const UnitRows& rows) : rows_(rows), dimension_(rows.dimension()) {
    left_.resize(block_rows * dimension_);
    right_.resize(block_rows * dimension_);
    products_.resize(block_rows * block_rows);
  }

  void multiply(std::size_t first_block, std::size_t second_block) {
    pack<height>(first_block, left_);
    pack<width>(second_block, right_);
    for (std::size_t i = 0; i < block_rows; i += height)
      for (std::size_t j = 0; j < block_rows; j += width) multiply_tile(i, j);
  }
  double at(const Place& place) const { return products_[place.first * block_rows + place.second]; }

 private:
  static constexpr std::size_t height = 4;
  static constexpr std::size_t width = 8;

  /// Stores a block in groups of `count` rows, column by column within a group. Rows after the last one are 0.
  template <std::size_t count>
  void pack(std::size_t block, std::vector<double>& to) const {
    for (std::size_t i = 0; i < block_rows; ++i) {
      const std::size_t row = block * block_rows + i;
      double* const panel = &to[i / count * count * dimension_ + i % count];
      const float* const from = row < rows_.size() ? rows_.row(static_cast<std::int64_t>(row)).data() : nullptr;
      for (std::size_t k = 0; k < dimension_; ++k)
        panel[k * count] = from != nullptr ? static_cast<double>(from[k]) : 0;
    }
  }
  void multiply_tile(std::size_t i, std::size_t j) {
    const double* const a = &left_[i * dimension_];
    const double* const b = &right_[j * dimension_];
    std::array<std::array<Doubles, width / lanes>, height> sums{};
    for (std::size_t k = 0; k < dimension_; ++k)
#pragma GCC unroll 4
      for (std::size_t r = 0; r < height; ++r)
#pragma GCC unroll 2
        for (std::size_t c = 0; c < width / lanes; ++c)
          sums[r][c] += a[k * height + r] * load(b + k * width + c * lanes);
    for (std::size_t r = 0; r < height; ++r)
      std::memcpy(&products_[(i + r) * block_rows + j], sums[r].data(), width * sizeof(double));
  }

  const UnitRows& rows_;
  std::size_t dimension_;
  std::vector<double> left_;
  std::vector<double> right_;
  std::vector<double> products_;  // [block_rows, block_rows]
};

class PairComparison {
 public:
  PairComparison(const UnitRows& rows, std::span<const Pair> pairs, ComparisonWay way)
      : rows_(rows), pairs_(pairs), way_(way), squares_(rows.size()), compared_(pairs.size()) {
    check();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> row = rows.row(static_cast<std::int64_t>(i));
      squares_[i] = exact_dot(row, row);
    }
  }

  std::vector<ComparedPair> run() {
    for (std::size_t i = 0; i < pairs_.size(); ++i) compared_[i].same = pairs_[i].same;
    const bool is_crowded = std::min(pairs_.size(), max_grouped) >= min_in_cell * blocks() * blocks();
    if (way_ == ComparisonWay::one_by_one || (way_ == ComparisonWay::automatic && !is_crowded))
      compare_in_order();
    else
      for (std::size_t begin = 0; begin < pairs_.size(); begin += max_grouped)
        compare_grouped(begin, std::min(max_grouped, pairs_.size() - begin));
    return std::move(compared_);
  }

 private:
  void check() const {
    const auto is_row = [&](std::int64_t i) { return i >= 0 && static_cast<std::size_t>(i) < rows_.size(); };
    for (std::size_t i = 0; i < pairs_.size(); ++i)
      if (!is_row(pairs_[i].first) || !is_row(pairs_[i].second))
        fail("evaluation: pair {} compares images {} and {}, but there are {}", i, pairs_[i].first, pairs_[i].second,
             rows_.size());
  }

  double product(std::size_t first, std::size_t second) const {
    return exact_dot(rows_.row(static_cast<std::int64_t>(first)), rows_.row(static_cast<std::int64_t>(second)));
  }
  double distance(std::size_t first, std::size_t second, double product) const {
    const double square = squares_[first] + squares_[second] - 2 * product;
    return std::isnan(square) ? std::numeric_limits<double>::infinity() : square;
  }

  void compare_in_order() {
    constexpr std::size_t chunk = 1024;
    parallel_for(static_cast<std::int64_t>((pairs_.size() + chunk - 1) / chunk), [&](std::int64_t c) {
      const std::size_t first = static_cast<std::size_t>(c) * chunk;
      for (std::size_t i = first; i < std::min(first + chunk, pairs_.size()); ++i) {
        const auto a = static_cast<std::size_t>(pairs_[i].first);
        const auto b = static_cast<std::size_t>(pairs_[i].second);
        compared_[i].distance = distance(a, b, product(a, b));
      }
    });
  }

  std::size_t blocks() const { return (rows_.size() + block_rows - 1) / block_rows; }
  /// Which two blocks the rows of a pair are in.
  std::size_t cell_of(const Pair& pair) const {
    return static_cast<std::size_t>(pair.first) / block_rows * blocks() +
           static_cast<std::size_t>(pair.second) / block_rows;
  }

  void compare_grouped(std::size_t begin, std::size_t count) {
    std::vector<std::size_t> ends(blocks() * blocks() + 1);
    for (const Pair& pair : pairs_.subspan(begin, count)) ++ends[cell_of(pair) + 1];
    for (std::size_t cell = 1; cell < ends.size(); ++cell) ends[cell] += ends[cell - 1];
    // Each cell's end is its begin until its places are filled.
    std::vector<Place> places(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Pair& pair = pairs_[begin + i];
      places[ends[cell_of(pair)]++] = {.pair = static_cast<std::uint32_t>(i),
                                       .first = static_cast<std::uint8_t>(pair.first % block_rows),
                                       .second = static_cast<std::uint8_t>(pair.second % block_rows)};
    }
    parallel_for(static_cast<std::int64_t>(blocks()), [&](std::int64_t row_of_cells) {
      const auto i = static_cast<std::size_t>(row_of_cells);
      std::optional<BlockProduct> of_blocks;
      for (std::size_t j = 0; j < blocks(); ++j) {
        const std::size_t cell = i * blocks() + j;
        const std::size_t first = cell == 0 ? 0 : ends[cell - 1];
        const std::span<const Place> own = std::span(places).subspan(first, ends[cell] - first);
        const bool multiplied = multiplies(own.size());
        if (multiplied) {
          if (!of_blocks) of_blocks.emplace(rows_);
          of_blocks->multiply(i, j);
        }
        for (const Place& place : own) {
          const std::size_t a = i * block_rows + place.first;
          const std::size_t b = j * block_rows + place.second;
          compared_[begin + place.pair].distance = distance(a, b, multiplied ? of_blocks->at(place) : product(a, b));
        }
      }
    });
  }
  bool multiplies(std::size_t pairs) const {
    constexpr double all = static_cast<double>(block_rows) * block_rows;
    return pairs > 0 && (way_ == ComparisonWay::products || static_cast<double>(pairs) >= share_for_product * all);
  }

  const UnitRows& rows_;
  std::span<const Pair> pairs_;
  ComparisonWay way_;
  std::vector<double> squares_;  // of each row's length
  std::vector<ComparedPair> compared_;
};

}  // namespace

std::vector<ComparedPair> compare(const UnitRows& rows, std::span<const Pair> pairs, ComparisonWay way) {
  return PairComparison(rows, pairs, way).run();
}

}  // namespace heddle
