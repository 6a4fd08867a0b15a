// Phase 2 of the head while the embeddings' gradient is being sent.
#include <atomic>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "layers/head/head.h"
#include "parallel/world.h"
#include "tests/support/devices.h"

namespace heddle::test::head_overlap_test {

namespace {

constexpr std::int64_t batch = 5;
constexpr std::int64_t dimension = 4;
const std::vector<std::int64_t> labels{1, 8, 3, 3, 0};

enum class When { within, after };

struct Stepped {
  std::vector<double> weights;
  std::vector<double> embedding_gradient;
  int calls = 0;
};

/// A step of one of two ranks. `prepare` may change the table before it.
Stepped step(Rank& rank, When when, const std::function<void(Head&)>& prepare = {},
             const std::function<void()>& on_update = {}) {
  Construction construction{rank.device, rank.key, DType::f32};
  Head head({.classes = 9, .logits = Logits::fused}, {.learning_rate = 0.1}, dimension, rank, construction);
  if (prepare) prepare(head);
  head.begin_step(0, labels);
  const IndexRange mine = shard(batch, 2, rank.index);
  const std::vector<double> all = test::normal_values(batch * dimension, 7);
  HeadInput input{
      .embedding =
          test::tensor(rank.device, {mine.size, dimension},
                       {all.begin() + mine.begin * dimension, all.begin() + mine.end() * dimension}, DType::f32),
      .labels = std::span(labels).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size)),
      .samples = {{0, 3}, {3, 2}},
      .global_batch = batch};
  Stepped result;
  if (when == When::within)
    input.while_reducing = [&] {
      ++result.calls;
      if (on_update) on_update();
      head.update({.learning_rate = 0.1});
    };
  const HeadOutput output = head.forward_backward(input);
  if (when == When::after) head.update({.learning_rate = 0.1});
  result.weights = head.table().weight.to_doubles();
  result.embedding_gradient = output.embedding_gradient.to_doubles();
  return result;
}

WorldOptions two_ranks() {
  WorldOptions options{.mesh = Mesh(2)};
  options.backend_options.threads = 1;
  return options;
}

}  // namespace

TEST_CASE("the head's update while its gradient is reduced has the bits of one after it") {
  run_ranks(two_ranks(), [](Rank& rank) {
    const Stepped after = step(rank, When::after);
    const Stepped within = step(rank, When::within);
    CHECK(within.calls == 1);
    CHECK(within.weights == after.weights);
    CHECK(within.embedding_gradient == after.embedding_gradient);
  });
}

TEST_CASE("no early update where logits are not finite: the sample is named, the weights stay") {
  const auto spoil = [](Head& head) {
    std::vector<double> weights = head.table().weight.to_doubles();
    weights[0] = std::numeric_limits<double>::quiet_NaN();
    head.table().weight = test::tensor(head.table().weight.device(), head.table().weight.shape(), weights, DType::f32);
  };
  std::atomic<int> updates = 0;
  const auto run = [&] {
    run_ranks(two_ranks(), [&](Rank& rank) { (void)step(rank, When::within, spoil, [&] { ++updates; }); });
  };
  CHECK_THROWS_WITH_AS(run(), "head: the logits of sample 0 of the batch are not finite: the training has diverged",
                       RankFailed);
  CHECK(updates == 0);
}

}  // namespace heddle::test::head_overlap_test
