#include "layers/head/class_sample.h"

#include <algorithm>
#include <cmath>

#include "framework/scalars/permutation.h"

namespace heddle {

namespace {

/// The shards that lie in a range, entirely or in part.
std::vector<std::int64_t> shards_in(const SampleShape& shape, const IndexRange& range) {
  std::vector<std::int64_t> shards;
  for (std::int64_t i = 0; i < shape.shards; ++i) {
    const IndexRange part = shard(shape.classes, shape.shards, i);
    if (part.size > 0 && part.end() > range.begin && part.begin < range.end()) shards.push_back(i);
  }
  return shards;
}

/// Marks a shard's drawn classes in `drawn`, which has one flag per class of the shard and contains those of the batch
/// already.
void draw_others(const IndexRange& shard, std::int64_t count, const Permutation& order, std::vector<bool>& drawn) {
  for (std::int64_t position = 0; count > 0 && position < shard.size; ++position) {
    const auto at = static_cast<std::size_t>(order[position]);
    if (drawn[at]) continue;
    drawn[at] = true;
    --count;
  }
}

}  // namespace

std::vector<std::int64_t> positives_of(std::span<const std::int64_t> labels, const IndexRange& range) {
  std::vector<std::int64_t> classes;
  for (const std::int64_t label : labels)
    if (label >= range.begin && label < range.end()) classes.push_back(label);
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

std::int64_t sampled_of(double rate, std::int64_t classes) {
  return static_cast<std::int64_t>(rate * static_cast<double>(classes));
}

bool varies_in_size(const SampleShape& shape, std::int64_t ranks, std::int64_t batch) {
  // The smallest shard that has a class.
  const IndexRange smallest = shard(shape.classes, shape.shards, std::min(shape.shards, shape.classes) - 1);
  return shape.shards != ranks || sampled_of(shape.rate, smallest.size) < std::min(batch, smallest.size);
}

std::int64_t ClassSample::position(std::int64_t row) const {
  const auto found = std::lower_bound(rows.begin(), rows.end(), row);
  return found != rows.end() && *found == row ? found - rows.begin() : -1;
}

ClassSample draw_sample(const SampleShape& shape, const IndexRange& range, std::span<const std::int64_t> labels,
                        RandomKey key, std::int64_t step) {
  ClassSample sample;
  for (const std::int64_t i : shards_in(shape, range)) {
    const IndexRange part = shard(shape.classes, shape.shards, i);
    const std::vector<std::int64_t> positives = positives_of(labels, part);
    std::vector<bool> drawn(static_cast<std::size_t>(part.size));
    for (const std::int64_t label : positives) drawn[static_cast<std::size_t>(label - part.begin)] = true;
    const std::int64_t wanted = sampled_of(shape.rate, part.size);
    // A different number for each shard and step: there are fewer than 2^32 shards.
    const auto number = (static_cast<std::uint64_t>(step) << 32) | static_cast<std::uint64_t>(i);
    const auto certain = static_cast<std::int64_t>(positives.size());
    const std::int64_t others = std::max<std::int64_t>(wanted - certain, 0);
    draw_others(part, others, Permutation(part.size, key, Purpose::class_sampling, number, others > 0), drawn);
    const double correction =
        others == 0 ? 0 : std::log(static_cast<double>(part.size - certain) / static_cast<double>(others));
    const std::int64_t end = std::min(part.end(), range.end());
    for (std::int64_t label = std::max(part.begin, range.begin); label < end; ++label)
      if (drawn[static_cast<std::size_t>(label - part.begin)]) {
        sample.rows.push_back(label - range.begin);
        if (!shape.corrects) continue;
        const bool is_certain = std::binary_search(positives.begin(), positives.end(), label);
        sample.corrections.push_back(is_certain ? 0 : correction);
      }
  }
  sample.size = static_cast<std::int64_t>(sample.rows.size());
  return sample;
}

ClassSample count_sample(const SampleShape& shape, const IndexRange& range, std::span<const std::int64_t> labels,
                         RandomKey key, std::int64_t step) {
  ClassSample sample;
  for (const std::int64_t i : shards_in(shape, range)) {
    const IndexRange part = shard(shape.classes, shape.shards, i);
    if (part.begin < range.begin || part.end() > range.end())
      return {.size = draw_sample(shape, range, labels, key, step).size};
    sample.size +=
        std::max(static_cast<std::int64_t>(positives_of(labels, part).size()), sampled_of(shape.rate, part.size));
  }
  return sample;
}

}  // namespace heddle
