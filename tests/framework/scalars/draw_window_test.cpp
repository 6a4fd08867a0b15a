// Draws depend only on an element's index in the whole tensor, however it is cut.
#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "framework/ops/training.h"
#include "framework/tensors/device.h"
#include "framework/tensors/index_range.h"
#include "tests/support/devices.h"

namespace heddle::test::draw_window_test {
namespace {

using Box = std::vector<IndexRange>;

const DrawKey key{.key = {3}, .purpose = Purpose::test, .step = 1, .layer = 4};

Shape sizes_of(const Box& box) {
  std::vector<std::int64_t> sizes;
  for (const IndexRange& stretch : box) sizes.push_back(stretch.size);
  return Shape(std::span<const std::int64_t>(sizes));
}

TEST_CASE("Dropout's masks of blocks of samples and channels are the blocks of the whole mask, forward and backward") {
  Device device = make_device();
  const Shape whole{5, 3, 4, 700};
  const auto mask = [&](const Shape& shape, const DrawWindow& window) {
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::parameter(Tensor::full(device, shape, DType::f32, 1), gradient);
    const Variable y = dropout(x, 0.4, key, window);
    backward({{y, Tensor::full(device, shape, DType::f32, 1)}});
    CHECK(gradient->gradient().to_doubles() == y.value().to_doubles());
    return y.value();
  };
  const Tensor serial = mask(whole, 0);
  for (const std::vector<std::int64_t>& columns :
       std::vector<std::vector<std::int64_t>>{{0, 700}, {0, 350, 700}, {0, 1, 3, 260, 260, 699, 700}})
    for (const std::vector<std::int64_t>& samples : std::vector<std::vector<std::int64_t>>{{0, 5}, {0, 2, 2, 5}}) {
      std::vector<Tensor> of_samples;
      for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
        std::vector<Tensor> of_columns;
        for (std::size_t j = 0; j + 1 < columns.size(); ++j) {
          const Box box{
              {samples[i], samples[i + 1] - samples[i]}, {0, 3}, {0, 4}, {columns[j], columns[j + 1] - columns[j]}};
          of_columns.push_back(mask(sizes_of(box), {box[0].begin * 12 * 700 + box[3].begin, box[3].size, 700}));
        }
        of_samples.push_back(concat_tensors(of_columns, 3));
      }
      CHECK(concat_tensors(of_samples, 0).to_doubles() == serial.to_doubles());
    }
}

}  // namespace
}  // namespace heddle::test::draw_window_test
