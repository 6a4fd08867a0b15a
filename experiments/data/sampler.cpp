#include "experiments/data/sampler.h"

#include "framework/error.h"
#include "framework/scalars/permutation.h"

namespace heddle {

std::vector<std::int64_t> batch_indices(std::int64_t size, std::int64_t batch, std::int64_t step, RandomKey key) {
  if (size < 1 || batch < 1 || step < 0)
    fail("batch {} of {} samples from a set of {}: the set and the batch need a sample", step, batch, size);
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(batch));
  std::int64_t position = step * batch;
  const bool is_walked = batch >= size / batch;  // the table has about the square root of the size
  while (static_cast<std::int64_t>(indices.size()) < batch) {
    const Permutation epoch(size, key, Purpose::shuffle, static_cast<std::uint64_t>(position / size), is_walked);
    do {
      indices.push_back(epoch[position++ % size]);
    } while (position % size != 0 && static_cast<std::int64_t>(indices.size()) < batch);
  }
  return indices;
}

std::int64_t batch_index(std::int64_t size, std::int64_t batch, std::int64_t step, std::int64_t position,
                         RandomKey key) {
  const std::int64_t place = step * batch + position;
  return Permutation(size, key, Purpose::shuffle, static_cast<std::uint64_t>(place / size))[place % size];
}

}  // namespace heddle
