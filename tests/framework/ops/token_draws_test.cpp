// The draws of masked tokens, and the two operations that leave tokens out and put them back.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "framework/ops/reduction.h"
#include "framework/ops/training.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"

namespace heddle::test::token_draws_test {

namespace {

using Rows = std::vector<std::int64_t>;

const DrawKey mask_key{.key = {7}, .purpose = Purpose::token_masks, .step = 2, .layer = 1};

/// For each sample, which of its tokens it keeps.
std::vector<std::set<std::int64_t>> kept_tokens(const TokenMask& mask) {
  const Rows rows = mask.order.rows(0, mask.order.numel() / mask.tokens * mask.kept).to_host<std::int64_t>();
  std::vector<std::set<std::int64_t>> kept(static_cast<std::size_t>(mask.order.numel() / mask.tokens));
  for (const std::int64_t row : rows) kept[static_cast<std::size_t>(row / mask.tokens)].insert(row % mask.tokens);
  return kept;
}

}  // namespace

TEST_CASE("every sample keeps as many different tokens of its own, and the order has each token once") {
  Device device = make_device();
  const TokenMask mask = draw_token_mask(device, 50, 13, 9, mask_key, 0);
  for (const auto& kept : kept_tokens(mask)) CHECK(kept.size() == 9);
  Rows rows = mask.order.to_host<std::int64_t>();
  for (std::size_t i = 0; i < 50 * 9; ++i) CHECK(rows[i] / 13 == static_cast<std::int64_t>(i) / 9);
  for (std::size_t i = 0; i < 50 * 4; ++i) CHECK(rows[50 * 9 + i] / 13 == static_cast<std::int64_t>(i) / 4);
  std::sort(rows.begin(), rows.end());
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(rows[i] == static_cast<std::int64_t>(i));
}

TEST_CASE("the tokens that a sample keeps depend on its place in the global batch, not on the batch's cut") {
  Device device = make_device();
  const auto whole = kept_tokens(draw_token_mask(device, 11, 7, 4, mask_key, 20));
  std::vector<std::set<std::int64_t>> parts;
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 3}, {3, 3}, {3, 4}, {4, 11}})
    for (const auto& kept : kept_tokens(draw_token_mask(device, end - begin, 7, 4, mask_key, 20 + begin)))
      parts.push_back(kept);
  CHECK(parts == whole);
  CHECK(std::set(whole.begin(), whole.end()).size() > 3);  // samples differ
  const auto differs = [&](const DrawKey& key) {
    return kept_tokens(draw_token_mask(device, 11, 7, 4, key, 20)) != whole;
  };
  CHECK(differs({.key = {8}, .purpose = Purpose::token_masks, .step = 2, .layer = 1}));
  CHECK(differs({.key = {7}, .purpose = Purpose::dropout, .step = 2, .layer = 1}));
  CHECK(differs({.key = {7}, .purpose = Purpose::token_masks, .step = 3, .layer = 1}));
  CHECK(differs({.key = {7}, .purpose = Purpose::token_masks, .step = 2, .layer = 2}));
}

TEST_CASE("all tokens, and all pairs of tokens, are masked equally often") {
  Device device = make_device();
  constexpr std::int64_t samples = 60'000;
  std::vector<double> single(5);
  std::vector<double> both(25);
  for (const auto& kept : kept_tokens(draw_token_mask(device, samples, 5, 3, mask_key, 0)))
    for (const std::int64_t a : kept) {
      ++single[static_cast<std::size_t>(a)];
      for (const std::int64_t b : kept) ++both[static_cast<std::size_t>(5 * a + b)];
    }
  // Within five deviations of the binomial distributions with p = 3/5 and p = 3/10.
  for (const double count : single) CHECK(std::abs(count - samples * 0.6) < 5 * std::sqrt(samples * 0.6 * 0.4));
  for (std::size_t a = 0; a < 5; ++a)
    for (std::size_t b = 0; b < a; ++b)
      CHECK(std::abs(both[5 * a + b] - samples * 0.3) < 5 * std::sqrt(samples * 0.3 * 0.7));
}

TEST_CASE("kept tokens return to their places, and the mask token stands in the others") {
  Device device = make_device();
  const TokenMask mask = draw_token_mask(device, 3, 6, 4, mask_key, 5);
  const Tensor x = tensor(device, {3, 6, 2}, normal_values(36, 1));
  const Variable token(tensor(device, {1, 1, 2}, {100, 200}));
  const Variable kept = mask_tokens(Variable(x), mask);
  CHECK(kept.shape() == Shape{3, 4, 2});
  const std::vector<double> restored = restore_tokens(kept, token, mask).value().to_doubles();
  const std::vector<double> values = x.to_doubles();
  const auto in = kept_tokens(mask);
  for (std::size_t i = 0; i < 36; ++i) {
    const bool stays = in[i / 12].count(static_cast<std::int64_t>(i % 12 / 2)) > 0;
    CHECK(restored[i] == (stays ? values[i] : i % 2 == 0 ? 100 : 200));
  }
}

TEST_CASE("batches without samples are masked and restored") {
  Device device = make_device();
  const auto gradient = std::make_shared<Accumulator>(Category::gradients);
  const auto token_gradient = std::make_shared<Accumulator>(Category::gradients);
  const Variable x = Variable::parameter(Tensor::zeros(device, {0, 6, 2}, DType::f32), gradient);
  const Variable token = Variable::parameter(Tensor::zeros(device, {1, 1, 2}, DType::f32), token_gradient);
  const TokenMask mask = draw_token_mask(device, 0, 6, 4, mask_key, 5);
  const Variable y = restore_tokens(mask_tokens(x, mask), token, mask);
  CHECK(y.shape() == Shape{0, 6, 2});
  backward(sum(y));
  CHECK(gradient->gradient().shape() == Shape{0, 6, 2});
  CHECK(token_gradient->gradient().to_doubles() == std::vector<double>{0, 0});
}

TEST_CASE("masks and tokens that do not fit are errors, which print both") {
  Device device = make_device();
  CHECK(message_of<InputError>([&] { (void)draw_token_mask(device, 2, 5, 0, mask_key, 0); }) ==
        "draw_token_mask: expected to keep at least 1 and fewer than all of 5 tokens, got 0");
  CHECK(message_of<InputError>([&] { (void)draw_token_mask(device, 2, 5, 5, mask_key, 0); }) ==
        "draw_token_mask: expected to keep at least 1 and fewer than all of 5 tokens, got 5");
  const TokenMask mask = draw_token_mask(device, 2, 5, 3, mask_key, 0);
  const Variable x(Tensor::zeros(device, {2, 4, 7}, DType::f32));
  CHECK(message_of<InputError>([&] { (void)mask_tokens(x, mask); }) == "mask_tokens: expected [2,5,d], got f32[2,4,7]");
  CHECK(message_of<InputError>([&] { (void)restore_tokens(x, x, mask); }) ==
        "restore_tokens: expected [2,3,d], got f32[2,4,7]");
  const Variable kept(Tensor::zeros(device, {2, 3, 7}, DType::f32));
  const Variable token(Tensor::zeros(device, {1, 1, 6}, DType::f32));
  CHECK(message_of<InputError>([&] { (void)restore_tokens(kept, token, mask); }) ==
        "restore_tokens: expected mask token f32[1,1,7], got f32[1,1,6]");
}

}  // namespace heddle::test::token_draws_test
