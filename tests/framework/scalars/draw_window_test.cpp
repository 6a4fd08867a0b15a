// Draws depend only on an element's index in the whole tensor, however it is cut.
#include <doctest/doctest.h>

#include "framework/ops/attention.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "framework/ops/training.h"
#include "framework/tensors/device.h"
#include "framework/tensors/index_range.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

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

TEST_CASE("attention's dropout is that of its weights, softmax(scale * q k^T), as one tensor [N, H, T, T]") {
  // Queries and keys of 0 give each of the T keys the weight 1 / T, and a value is the unit vector of its token.
  constexpr std::int64_t samples = 3;
  constexpr std::int64_t heads = 2;
  constexpr std::int64_t tokens = 5;
  Device device = make_device();
  std::vector<double> qkv(samples * tokens * heads * 3 * tokens);
  const auto at = [&](std::int64_t n, std::int64_t t, std::int64_t h, std::int64_t part, std::int64_t i) {
    return static_cast<std::size_t>((((n * tokens + t) * heads + h) * 3 + part) * tokens + i);
  };
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t h = 0; h < heads; ++h) qkv[at(n, t, h, 2, t)] = 1;
  const Variable x(tensor(device, {samples, tokens, heads * 3 * tokens}, qkv));
  const Tensor weights = Tensor::full(device, {samples, heads, tokens, tokens}, DType::f64, 1.0 / tokens);
  // The input is a part of a larger batch and layer: its first sample has the number 7, and its heads are 3 and 4 of 5.
  const std::int64_t first = (7 * 5 + 3) * tokens * tokens;
  const Variable dropped = dropout(Variable(weights), 0.4, key, {first, heads * tokens * tokens, 5 * tokens * tokens});
  const Variable result = attention(x, heads, {}, {0.4, key, 7, 3, 5});
  const Variable expected = reshape(transpose(dropped, {0, 2, 1, 3}), {samples, tokens, heads * tokens});
  CHECK(difference(result.value().to_doubles(), expected.value().to_doubles()) < 1e-15);
}

TEST_CASE("attention's dropout of blocks of samples and heads is that of the blocks, forward and backward") {
  Device device = make_device();
  // More tokens than a stretch of draws.
  constexpr std::int64_t features = 3 * 2;
  const Shape whole{3, 300, 4 * features};
  const Tensor qkv = tensor(device, whole, normal_values(whole.numel(), 5));
  const Tensor dy = tensor(device, {3, 300, 4 * 2}, normal_values(3 * 300 * 4 * 2, 6));
  const auto block = [](const Tensor& t, IndexRange samples, IndexRange heads, std::int64_t of_head) {
    const Variable rows = slice(Variable(t), 0, samples.begin, samples.begin + samples.size);
    return slice(rows, 2, heads.begin * of_head, (heads.begin + heads.size) * of_head).value();
  };
  const auto run = [&](IndexRange samples, IndexRange heads) {
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::parameter(block(qkv, samples, heads, features), gradient);
    const Variable y = attention(x, heads.size, {}, {0.4, key, 7 + samples.begin, 2 + heads.begin, 8});
    backward({{y, block(dy, samples, heads, 2)}});
    return std::pair(y.value(), gradient->gradient());
  };
  const auto [result, gradient] = run({0, 3}, {0, 4});
  for (const IndexRange samples : {IndexRange{0, 1}, IndexRange{1, 2}})
    for (const IndexRange heads : {IndexRange{0, 1}, IndexRange{1, 3}}) {
      const auto [y, dx] = run(samples, heads);
      CHECK(y.to_doubles() == block(result, samples, heads, 2).to_doubles());
      CHECK(dx.to_doubles() == block(gradient, samples, heads, features).to_doubles());
    }
}

TEST_CASE("attention: dropout that is impossible is refused") {
  Device device = make_device();
  const Variable x(Tensor::full(device, {1, 2, 6}, DType::f32, 1));
  const auto refusal = [&](const AttentionDropout& dropout) {
    return message_of<InputError>([&] { attention(x, 2, {}, dropout); });
  };
  CHECK(refusal({.probability = 1}) == "attention: expected a probability of dropout in [0, 1), got 1");
  CHECK(refusal({.probability = 0.5, .first_head = 3, .heads = 4}) ==
        "attention: expected heads 3 to 4 to be among the 4 of dropout");
}

}  // namespace
}  // namespace heddle::test::draw_window_test
