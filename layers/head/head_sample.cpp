#include "layers/head/head_sample.h"

#include <utility>

#include "framework/tensors/device.h"
#include "layers/head/class_tiles.h"

namespace heddle {

namespace {

/// The rows of the sampled classes.
ClassSample of_centres(ClassSample sample, std::int64_t centres) {
  if (centres == 1) return sample;
  std::vector<std::int64_t> rows;
  for (const std::int64_t row : sample.rows)
    for (std::int64_t i = 0; i < centres; ++i) rows.push_back(row * centres + i);
  sample.size *= centres;
  sample.rows = std::move(rows);
  return sample;
}

}  // namespace

HeadSample::HeadSample(const HeadConfig& config, const IndexRange& range, std::int64_t ranks, RandomKey key,
                       Device& device, bool draws_aside)
    : config_(config),
      range_(range),
      shape_{config.classes, config.sample.shards_over(ranks), config.sample.rate, config.sample.correction},
      key_(key),
      device_(device),
      draws_aside_(draws_aside) {}

void HeadSample::begin_step(std::int64_t step, std::span<const std::int64_t> labels) {
  std::vector<std::int64_t> own(labels.begin(), labels.end());
  const auto when = draws_aside_ ? std::launch::async : std::launch::deferred;
  const auto draw = device_.has_data() ? draw_sample : count_sample;
  drawing_ = std::async(when, [draw, shape = shape_, range = range_, own = std::move(own), key = key_, step] {
    return draw(shape, range, own, key, step);
  });
}

bool HeadSample::take() {
  if (!drawing_.valid()) return false;
  drawn_ = of_centres(drawing_.get(), config_.sub_centres);
  return true;
}

Tensor HeadSample::index() const {
  return tensor_of_values(device_, drawn_.rows, drawn_.size);
}

Tensor HeadSample::corrections(DType dtype) const {
  if (!config_.sample.correction) return {};
  const std::int64_t classes = drawn_.size / config_.sub_centres;
  Tensor corrections = Tensor::empty(device_, {classes}, dtype);
  device_.backend().elementwise().cast(tensor_of_values(device_, drawn_.corrections, classes), corrections);
  return corrections;
}

Tensor HeadSample::columns_of(const Tensor& labels) const {
  if (!device_.has_data()) return labels;
  std::vector<std::int64_t> columns = labels.to_host<std::int64_t>();
  for (std::int64_t& label : columns) {
    const std::int64_t row = drawn_.position(config_.rows_of(label - range_.begin));
    label = row < 0 ? row : row / config_.sub_centres;
  }
  return Tensor::from_host(device_, labels.shape(), columns);
}

}  // namespace heddle
