#include "experiments/training/evaluation/protocol/nearest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/data/parallel_for.h"
#include "framework/error.h"
#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// Candidates that a probe keeps beyond those that it needs.
constexpr std::int64_t spare_candidates = 16;
/// The probes that are multiplied at a time; their packed copies stay in the cache.
constexpr std::int64_t max_probes = 1024;
/// The cosines of a tile: 16 MiB. Threads wait for each other after each tile, which takes long on a busy machine if
/// the tiles are small.
constexpr std::int64_t tile_cosines = std::int64_t{1} << 22;
/// Columns of a tile that one task reads, and that are compared with their bounds together.
constexpr std::int64_t task_columns = 64;
constexpr std::int64_t lane_columns = 16;

bool is_on_host(const Device& device) {
  return device.backend().name() == "cpu";
}

/// The best groups for one probe, the best first, from rows that are offered in ascending order.
template <class Score>
class BestGroups {
 public:
  struct Candidate {
    Score score;
    std::int64_t group;
    std::int64_t row;
  };

  explicit BestGroups(std::int64_t most) : most_(static_cast<std::size_t>(most)) {}

  /// Scores that are no better than this are skipped.
  Score bound() const { return bound_; }
  bool is_full() const { return candidates_.size() == most_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }

  /// Must be called for scores above the bound only.
  void offer(Score score, std::int64_t group, std::int64_t row) {
    const auto same = std::find_if(candidates_.begin(), candidates_.end(),
                                   [group](const Candidate& candidate) { return candidate.group == group; });
    if (same != candidates_.end()) {
      if (!(score > same->score)) return;
      candidates_.erase(same);
    } else if (is_full()) {
      candidates_.pop_back();
    }
    const auto place = std::find_if(candidates_.begin(), candidates_.end(),
                                    [score](const Candidate& candidate) { return score > candidate.score; });
    candidates_.insert(place, {score, group, row});
    if (is_full()) bound_ = candidates_.back().score;
  }

 private:
  std::size_t most_;
  std::vector<Candidate> candidates_;
  Score bound_ = -std::numeric_limits<Score>::infinity();
};

/// Multiplies the rows of a gallery, tile by tile, by all probes. `load(values, begin)` fills a tensor with the probes
/// from `begin` on; offer(tile, first row, first probe) gets the cosines [rows, probes] of a tile.
template <class Load, class Offer>
void multiply_tiles(const RowTable& gallery, std::int64_t probes, const Load& load, const Offer& offer) {
  struct ProbeBlock {  // as the right operand of all products
    std::int64_t begin;
    std::int64_t size;
    PackedOperand operand;
  };
  Device& device = gallery.device();
  const MemoryScope scope(device, Category::workspace);
  const std::int64_t tile_rows =
      std::min({tile_cosines / std::min(probes, max_probes), RowTable::block_rows, gallery.capacity()});
  std::vector<ProbeBlock> blocks;
  for (std::int64_t begin = 0; begin < probes; begin += max_probes) {
    const std::int64_t size = std::min(max_probes, probes - begin);
    Tensor values = Tensor::empty(device, {size, gallery.dimension()}, DType::f32);
    load(values, begin);
    blocks.push_back({begin, size, PackedOperand(values, true, tile_rows, gallery.capacity() / tile_rows)});
  }
  const Tensor cosines = Tensor::empty(device, {tile_rows * std::min(probes, max_probes)}, DType::f32);
  std::int64_t first_row = 0;
  for (const Tensor& rows : gallery.blocks()) {
    for (std::int64_t begin = 0; begin < rows.shape()[0]; begin += tile_rows) {
      const std::int64_t end = std::min(begin + tile_rows, rows.shape()[0]);
      for (const ProbeBlock& block : blocks) {
        Tensor tile = cosines.rows(0, (end - begin) * block.size).reshape({end - begin, block.size});
        block.operand.multiply(rows.rows(begin, end), 0, tile);
        offer(tile, first_row + begin, block.begin);
      }
    }
    first_row += rows.shape()[0];
  }
}

class NearestSearch {
 public:
  NearestSearch(const RowTable& gallery, std::span<const std::int64_t> starts, const UnitRows& probes,
                std::int64_t count)
      : gallery_(gallery),
        starts_(starts),
        probes_(probes),
        count_(count),
        best_(probes.size(), BestGroups<float>(count + spare_candidates)),
        bounds_(probes.size(), -std::numeric_limits<float>::infinity()),
        nearest_(probes.size()) {}

  std::vector<Neighbours> run() {
    multiply_all();
    std::vector<char> certain(probes_.size(), 0);
    parallel_for(static_cast<std::int64_t>(probes_.size()),
                 [&](std::int64_t i) { certain[static_cast<std::size_t>(i)] = settle(i) ? 1 : 0; });
    std::vector<std::int64_t> uncertain;
    for (std::size_t i = 0; i < certain.size(); ++i)
      if (certain[i] == 0) uncertain.push_back(static_cast<std::int64_t>(i));
    if (!uncertain.empty()) compare_exactly(uncertain);
    return std::move(nearest_);
  }

 private:
  std::int64_t group_of(std::int64_t row) const {
    return starts_.empty() ? row : std::upper_bound(starts_.begin(), starts_.end(), row) - starts_.begin() - 1;
  }

  void multiply_all() {
    const auto load = [this](Tensor& values, std::int64_t begin) {
      const auto elements = static_cast<std::size_t>(values.numel());
      values.load_bytes(
          std::as_bytes(probes_.values().subspan(static_cast<std::size_t>(begin) * probes_.dimension(), elements)));
    };
    multiply_tiles(gallery_, static_cast<std::int64_t>(probes_.size()), load,
                   [this](const Tensor& tile, std::int64_t first_row, std::int64_t first_probe) {
                     offer_tile(tile, first_row, first_probe);
                   });
  }

  void offer_tile(const Tensor& tile, std::int64_t first_row, std::int64_t first_probe) {
    const std::int64_t rows = tile.shape()[0];
    const std::int64_t columns = tile.shape()[1];
    std::vector<float> copy;
    if (!is_on_host(tile.device())) copy = tile.to_host<float>();
    const float* const cosines = copy.empty() ? tile.as<float>() : copy.data();
    parallel_for((columns + task_columns - 1) / task_columns, [&](std::int64_t task) {
      const std::int64_t begin = task * task_columns;
      const std::int64_t end = std::min(begin + task_columns, columns);
      float* const bounds = &bounds_[static_cast<std::size_t>(first_probe)];
      for (std::int64_t row = 0; row < rows; ++row) {
        const float* const values = cosines + row * columns;
        for (std::int64_t lane = begin; lane < end; lane += lane_columns) {
          const std::int64_t lane_end = std::min(lane + lane_columns, end);
          if (!exceeds(values + lane, bounds + lane, lane_end - lane)) continue;
          for (std::int64_t i = lane; i < lane_end; ++i)
            if (values[i] > bounds[i]) {
              BestGroups<float>& best = best_[static_cast<std::size_t>(first_probe + i)];
              best.offer(values[i], group_of(first_row + row), first_row + row);
              bounds[i] = best.bound();
            }
        }
      }
    });
  }
  static bool exceeds(const float* values, const float* bounds, std::int64_t count) {
    int any = 0;
    if (count == lane_columns)
      for (int i = 0; i < lane_columns; ++i) any |= values[i] > bounds[i] ? 1 : 0;
    else
      for (std::int64_t i = 0; i < count; ++i) any |= values[i] > bounds[i] ? 1 : 0;
    return any != 0;
  }

  /// The bound of a product's rounding error: of sums in any order, for rows of length 1 (Higham 2002, section 3.1).
  double max_error() const {
    constexpr double unit = 0x1p-24;
    const auto n = static_cast<double>(gallery_.dimension() + 1);
    return 1.001 * n * unit / (1 - n * unit);
  }

  double cosine(std::int64_t row, std::int64_t probe, std::vector<float>& buffer) const {
    return exact_dot(gallery_.on_host(row, row + 1, buffer), probes_.row(probe));
  }

  /// The exact cosine of a candidate's group, and its nearest row.
  Neighbour exactly(const BestGroups<float>::Candidate& candidate, std::int64_t probe,
                    std::vector<float>& buffer) const {
    if (starts_.empty()) return {candidate.group, candidate.row, cosine(candidate.row, probe, buffer)};
    Neighbour best{candidate.group, -1, -std::numeric_limits<double>::infinity()};
    const auto group = static_cast<std::size_t>(candidate.group);
    for (std::int64_t row = starts_[group]; row < starts_[group + 1]; ++row)
      if (const double score = cosine(row, probe, buffer); score > best.cosine) best = {best.group, row, score};
    return best;
  }

  /// Sorts the candidates of a probe by their exact cosines. False if a row that is no candidate may be nearer.
  bool settle(std::int64_t probe) {
    const BestGroups<float>& best = best_[static_cast<std::size_t>(probe)];
    Neighbours& found = nearest_[static_cast<std::size_t>(probe)];
    std::vector<float> buffer;
    for (const auto& candidate : best.candidates()) found.push_back(exactly(candidate, probe, buffer));
    std::sort(found.begin(), found.end(), [](const Neighbour& a, const Neighbour& b) {
      return a.cosine != b.cosine ? a.cosine > b.cosine : a.row < b.row;
    });
    if (static_cast<std::int64_t>(found.size()) > count_) found.resize(static_cast<std::size_t>(count_));
    return !best.is_full() || found.back().cosine > best.bound() + max_error();
  }

  void compare_exactly(const std::vector<std::int64_t>& probes) {
    std::vector<BestGroups<double>> best(probes.size(), BestGroups<double>(count_));
    std::vector<float> buffer;
    const auto dimension = static_cast<std::size_t>(gallery_.dimension());
    for (std::int64_t begin = 0; begin < gallery_.rows(); begin += RowTable::block_rows) {
      const std::int64_t end = std::min(begin + RowTable::block_rows, gallery_.rows());
      const std::span<const float> values = gallery_.on_host(begin, end, buffer);
      parallel_for(static_cast<std::int64_t>(probes.size()), [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        const std::span<const float> probe = probes_.row(probes[at]);
        for (std::int64_t row = begin; row < end; ++row) {
          const double score =
              exact_dot(values.subspan(static_cast<std::size_t>(row - begin) * dimension, dimension), probe);
          if (score > best[at].bound()) best[at].offer(score, group_of(row), row);
        }
      });
    }
    for (std::size_t i = 0; i < probes.size(); ++i) {
      Neighbours& found = nearest_[static_cast<std::size_t>(probes[i])];
      found.clear();
      for (const auto& candidate : best[i].candidates())
        found.push_back({candidate.group, candidate.row, candidate.score});
    }
  }

  const RowTable& gallery_;
  std::span<const std::int64_t> starts_;
  const UnitRows& probes_;
  std::int64_t count_;
  std::vector<BestGroups<float>> best_;
  std::vector<float> bounds_;  // of `best_`, side by side
  std::vector<Neighbours> nearest_;
};

}  // namespace

RowTable::RowTable(Device& device, std::int64_t rows, std::int64_t dimension)
    : device_(device), dimension_(dimension), capacity_(rows) {
  for (std::int64_t begin = 0; begin < rows; begin += block_rows)
    blocks_.push_back(Tensor::empty(device, {std::min(block_rows, rows - begin), dimension}, DType::f32));
}

Tensor RowTable::rows_of_block(std::int64_t begin, std::int64_t end) const {
  const std::int64_t first = begin - begin % block_rows;
  return blocks_.at(static_cast<std::size_t>(begin / block_rows)).rows(begin - first, end - first);
}

void RowTable::append(std::span<const float> values) {
  constexpr std::int64_t append_rows = 4096;  // that are copied at a time
  std::vector<float> rows;
  const auto dimension = static_cast<std::size_t>(dimension_);
  while (!values.empty()) {
    const auto block = static_cast<std::size_t>(rows_ / block_rows);
    const std::int64_t block_end =
        block < blocks_.size() ? rows_ - rows_ % block_rows + blocks_[block].shape()[0] : rows_;
    if (block_end == rows_ || values.size() < dimension)
      fail("a table of {} rows is full, or was given a part of a row of {} numbers", rows_, dimension);
    const std::int64_t count =
        std::min({static_cast<std::int64_t>(values.size() / dimension), block_end - rows_, append_rows});
    rows.assign(values.begin(), values.begin() + count * dimension_);
    parallel_for(count, [&](std::int64_t i) {
      scale_to_unit(std::span(rows).subspan(static_cast<std::size_t>(i) * dimension, dimension));
    });
    rows_of_block(rows_, rows_ + count).load_bytes(std::as_bytes(std::span(rows)));
    rows_ += count;
    values = values.subspan(rows.size());
  }
}

std::span<const float> RowTable::on_host(std::int64_t begin, std::int64_t end, std::vector<float>& buffer) const {
  const Tensor rows = rows_of_block(begin, end);
  if (is_on_host(device_)) return {rows.as<float>(), static_cast<std::size_t>(rows.numel())};
  buffer = rows.to_host<float>();
  return buffer;
}

std::vector<Neighbours> nearest_rows(const RowTable& gallery, std::span<const std::int64_t> starts,
                                     const UnitRows& probes, std::int64_t count) {
  if (static_cast<std::size_t>(gallery.dimension()) != probes.dimension())
    fail("probes of {} features cannot be compared with a gallery of {}", probes.dimension(), gallery.dimension());
  return NearestSearch(gallery, starts, probes, count).run();
}

void plan_nearest_rows(Device& device, std::int64_t gallery, std::int64_t probes, std::int64_t dimension) {
  const MemoryScope scope(device, Category::workspace);
  const RowTable rows(device, gallery, dimension);
  multiply_tiles(
      rows, probes, [](Tensor&, std::int64_t) {}, [](const Tensor&, std::int64_t, std::int64_t) {});
}

}  // namespace heddle
