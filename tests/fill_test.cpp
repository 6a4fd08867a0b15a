#include "framework/fill.h"

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "tests/support/devices.h"
#include "tests/support/ranks.h"

namespace heddle::test {
namespace {

using Box = std::vector<ShardRange>;

const DrawKey key{.key = {3}, .purpose = Purpose::test, .step = 1, .layer = 4};

Tensor box_of(Tensor whole, const Box& box) {
  for (std::size_t i = 0; i < box.size(); ++i)
    whole = slice_tensor(whole, static_cast<int>(i), box[i].begin, box[i].end());
  return whole;
}

Shape sizes_of(const Box& box) {
  std::vector<std::int64_t> sizes;
  for (const ShardRange& stretch : box) sizes.push_back(stretch.size);
  return Shape(std::span<const std::int64_t>(sizes));
}

TEST_CASE("A box filled by itself is the box of the whole tensor, in every type and however it is cut") {
  Device device = make_device();
  const std::vector<std::pair<Shape, std::vector<Box>>> boxes{
      {{}, {{}}},
      {{1003}, {{{0, 1003}}, {{5, 998}}, {{1002, 1}}, {{7, 0}}}},
      {{21, 1300},
       {{{3, 7}, {0, 1300}}, {{0, 21}, {1, 1}}, {{0, 21}, {650, 650}}, {{20, 1}, {3, 5}}, {{4, 3}, {9, 0}}}},
      {{6, 3, 3, 10},
       {{{0, 6}, {0, 3}, {0, 3}, {0, 10}},
        {{2, 3}, {0, 3}, {0, 3}, {0, 10}},
        {{0, 6}, {0, 3}, {0, 3}, {3, 4}},
        {{2, 3}, {0, 3}, {0, 3}, {5, 5}},
        {{0, 6}, {1, 2}, {0, 3}, {0, 10}},
        {{1, 4}, {1, 2}, {2, 1}, {3, 6}},
        {{1, 4}, {0, 2}, {1, 2}, {3, 6}},
        {{1, 1}, {2, 1}, {1, 2}, {3, 6}}}},
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const auto& [shape, of_shape] : boxes) {
      Tensor normal = Tensor::empty(device, shape, dtype);
      Tensor uniform = Tensor::empty(device, shape, dtype);
      device.backend().training().fill_normal(normal, key, 0, 1, 0.5);
      device.backend().training().fill_uniform(uniform, key, 0, -1, 2);
      for (const Box& box : of_shape) {
        CAPTURE(to_string(dtype, sizes_of(box)));
        Tensor part = Tensor::empty(device, sizes_of(box), dtype);
        fill_normal(part, shape, box, key, 1, 0.5);
        CHECK(part.to_doubles() == box_of(normal, box).to_doubles());
        fill_uniform(part, shape, box, key, -1, 2);
        CHECK(part.to_doubles() == box_of(uniform, box).to_doubles());
      }
    }
}

TEST_CASE("Dropout's masks of blocks of samples and channels are the blocks of the whole mask, there and back") {
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
          of_columns.push_back(mask(sizes_of(box), window_of(whole, box)));
        }
        of_samples.push_back(concat_tensors(of_columns, 3));
      }
      CHECK(concat_tensors(of_samples, 0).to_doubles() == serial.to_doubles());
    }
}

TEST_CASE("A window says where a box's runs lie, and boxes that do not fit are refused") {
  CHECK(window_of({4, 3, 10}, Box{{1, 2}, {0, 3}, {0, 10}}) == DrawWindow(30));
  CHECK(window_of({4, 3, 10}, Box{{1, 2}, {0, 3}, {4, 5}}) == DrawWindow(34, 5, 10));
  CHECK(window_of({4, 3, 10}, Box{{1, 2}, {1, 2}, {0, 10}}) == DrawWindow(40, 20, 30));
  CHECK(message_of([] {
          window_of({4, 3, 10}, Box{{1, 2}, {1, 2}, {4, 5}});
        }) == "box: a tensor [4,3,10] is cut in 3 dimensions; a window tells two");
  CHECK(message_of([] { window_of({4, 3}, Box{{1, 2}}); }) == "box: 1 stretches for a tensor [4,3] of 2 dimensions");
  CHECK(message_of([] {
          window_of({4, 3}, Box{{0, 4}, {2, 2}});
        }) == "box: elements 2 to 4 do not lie in dimension 1 of a tensor [4,3]");
  Device device = make_device("plan");
  CHECK(message_of([&] {
          Tensor part = Tensor::empty(device, {4, 2}, DType::f32);
          fill_normal(part, {4, 3}, Box{{0, 4}, {2, 1}}, key, 0, 1);
        }) == "box: expected a part f32[4,1] of a tensor [4,3], got f32[4,2]");
}

}  // namespace
}  // namespace heddle::test
