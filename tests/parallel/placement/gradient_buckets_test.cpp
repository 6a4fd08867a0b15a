#include "parallel/placement/gradient_buckets.h"

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/optimizers/optimizer.h"
#include "parallel/placement/flat_shard.h"
#include "tests/support/message.h"
#include "tests/support/transports.h"

namespace heddle::test {
namespace {

/// Weights in model order, of uneven sizes, and a loss whose gradients differ from rank to rank.
struct Weights {
  std::vector<Tensor> values;
  std::vector<std::shared_ptr<Accumulator>> accumulators;
  std::vector<Variable> leaves;

  explicit Weights(Rank& rank, const std::vector<Shape>& shapes = {{7}, {3, 5}, {1}, {40, 5}, {2, 2, 2}, {11}}) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      // The same on every rank.
      values.push_back(
          Tensor::from_host(rank.device, shapes[i], test::values<float>(static_cast<int>(i), shapes[i].numel())));
      accumulators.push_back(std::make_shared<Accumulator>(Category::gradients));
      leaves.push_back(Variable::parameter(values[i], accumulators[i]));
    }
  }

  /// A chain from the first weight to the last; `skipped` is left out of it.
  Variable loss(Rank& rank, int seed, int skipped = -1) const {
    Variable y;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (static_cast<int>(i) == skipped) continue;
      const Tensor factor =
          Tensor::from_host(rank.device, values[i].shape(),
                            test::values<float>(100 * seed + 10 * rank.index + static_cast<int>(i), values[i].numel()));
      const Variable part = sum(multiply(leaves[i], Variable(factor)));
      y = y.defined() ? add(y, part) : part;
    }
    return y;
  }

  std::vector<PartialGradient> partial(Communicator* ranks, bool sharded = false) const {
    std::vector<PartialGradient> all;
    for (std::size_t i = 0; i < values.size(); ++i) all.push_back({values[i], accumulators[i], ranks, sharded});
    return all;
  }

  /// The reference: every gradient reduced by itself. Leaves the accumulators empty.
  std::vector<Tensor> reduced_one_by_one(Rank& rank) const {
    std::vector<Tensor> sums;
    for (const auto& accumulator : accumulators) {
      sums.push_back(rank.world.all_reduce(accumulator->gradient()));
      accumulator->clear();
    }
    return sums;
  }

  void clear() const {
    for (const auto& accumulator : accumulators) accumulator->clear();
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.to_host<float>() == b.to_host<float>();
}

TEST_CASE("Sums in buckets of any size have the bits of gradients that are reduced one by one") {
  for (const std::int64_t bucket_bytes : {1, 40, 100, 1 << 20})
    on_ranks(3, [bucket_bytes](Rank& rank) {
      const Weights weights(rank);
      GradientBuckets buckets(weights.partial(&rank.world), bucket_bytes);
      for (int step = 0; step < 2; ++step) {
        backward(weights.loss(rank, 2 * step));
        backward(weights.loss(rank, 2 * step + 1));
        const std::vector<Tensor> expected = weights.reduced_one_by_one(rank);
        backward(weights.loss(rank, 2 * step));
        CHECK(buckets.started() == (step == 0 ? 0 : buckets.buckets()));
        buckets.begin();
        backward(weights.loss(rank, 2 * step + 1));
        CHECK(buckets.started() == buckets.buckets());
        buckets.finish();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const Tensor& sum = weights.accumulators[i]->gradient();
          CHECK(sum.shape() == weights.values[i].shape());
          CHECK(same_bits(sum, expected[i]));
        }
        weights.clear();
      }
    });
}

TEST_CASE("A bucket starts during the backward pass, when its last gradient has arrived") {
  on_ranks(2, [](Rank& rank) {
    const Weights weights(rank);
    GradientBuckets buckets(weights.partial(&rank.world), 79);
    CHECK(buckets.buckets() == 4);  // {11, 2x2x2}, {40x5}, {1, 3x5}, {7}
    std::vector<std::size_t> started;
    // Between the weights' parts of the chain, from the last to the first.
    Variable watched;
    for (std::size_t i = 0; i < weights.leaves.size(); ++i) {
      const Variable part = sum(weights.leaves[i]);
      watched = watched.defined() ? add(watched, part) : part;
      watched = record(watched.value(), {watched}, [&](const Tensor& dy, Wanted) {
        started.push_back(buckets.started());
        return Gradients{dy};
      });
    }
    buckets.begin();
    backward(watched);
    std::string order;
    for (const std::size_t count : started) order += std::to_string(count);
    CHECK(order == "001223");
    CHECK(buckets.started() == 4);
    buckets.finish();
    CHECK(weights.accumulators[0]->gradient().to_host<float>() == std::vector<float>(7, 2));
  });
}

TEST_CASE("Gradients that never come count as zeros, also where other ranks have them, and hold nothing up") {
  for (const bool sharded : {false, true})
    on_ranks(2, [sharded](Rank& rank) {
      const Weights weights(rank);
      GradientBuckets buckets(weights.partial(&rank.world, sharded), 80);
      buckets.begin();
      backward(weights.loss(rank, 0, rank.index == 0 ? 3 : 4));
      CHECK(buckets.started() < buckets.buckets());
      buckets.finish();
      const Weights reference(rank);
      backward(reference.loss(rank, 0));
      const std::size_t mine = rank.index == 0 ? 3 : 4;
      reference.accumulators[mine]->set(Tensor::zeros_like(reference.values[mine]));
      const std::vector<Tensor> expected = reference.reduced_one_by_one(rank);
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(same_bits(weights.accumulators[i]->gradient(),
                        sharded ? flat_shard(expected[i], rank.world) : expected[i]));
    });
}

TEST_CASE("Sharded gradients come back as each rank's elements of the sum, uneven and none included") {
  for (const std::int64_t bucket_bytes : {1, 100, 1 << 20})
    on_ranks(3, [bucket_bytes](Rank& rank) {
      const Weights weights(rank);
      backward(weights.loss(rank, 5));
      const std::vector<Tensor> expected = weights.reduced_one_by_one(rank);
      GradientBuckets buckets(weights.partial(&rank.world, true), bucket_bytes);
      buckets.begin();
      const std::int64_t before = rank.bytes.sent_bytes();
      backward(weights.loss(rank, 5));
      buckets.finish();
      std::int64_t others = 0;  // a reduce_scatter sends what others keep, once
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Tensor& mine = weights.accumulators[i]->gradient();
        const IndexRange range = flat_range(weights.values[i], rank.world, rank.index);
        CHECK(mine.shape() == Shape{range.size});
        CHECK(same_bits(mine, flat_shard(expected[i], rank.world)));
        others += 4 * (weights.values[i].numel() - range.size);
      }
      CHECK(rank.bytes.sent_bytes() - before == others);
      CHECK(rank.device.meter().live()[Category::communication] == 0);
    });
}

TEST_CASE("Gradients of several communicators fall into buckets of their own") {
  on_ranks(6, [](Rank& rank) {
    Communicator rows = rank.world.split(rank.index / 3);
    Communicator columns = rank.world.split(rank.index % 3);
    const Weights weights(rank);
    std::vector<PartialGradient> partial = weights.partial(&rows);
    for (std::size_t i = 1; i < partial.size(); i += 2) partial[i].ranks = &columns;
    GradientBuckets buckets(partial, 1 << 20);
    CHECK(buckets.buckets() == 2);
    buckets.begin();
    backward(weights.loss(rank, 1));
    CHECK(buckets.started() == 2);
    buckets.finish();
    const Weights reference(rank);
    backward(reference.loss(rank, 1));
    for (std::size_t i = 0; i < partial.size(); ++i) {
      const Tensor sum = partial[i].ranks->all_reduce(reference.accumulators[i]->gradient());
      CHECK(same_bits(weights.accumulators[i]->gradient(), sum));
    }
  });
}

TEST_CASE("A gradient that arrives after its reduction has started is an error") {
  CHECK(message_of([] {
          run_ranks(ranks(2), [](Rank& rank) {
            const Weights weights(rank);
            GradientBuckets buckets(weights.partial(&rank.world), 1);
            buckets.begin();
            backward(weights.loss(rank, 0));
            backward(weights.loss(rank, 1));
            buckets.finish();
          });
        }) == "rank 0 failed: gradient buckets: a gradient f32[11] arrived after its reduction had started");
}

TEST_CASE("One rank needs no buckets, and afterwards no callback remains") {
  on_ranks(1, [](Rank& rank) {
    const Weights weights(rank);
    {
      GradientBuckets buckets(weights.partial(&rank.world, true), 100);
      CHECK(buckets.buckets() == 0);
      buckets.begin();
      backward(weights.loss(rank, 0));
      buckets.finish();
      CHECK(weights.accumulators[1]->gradient().shape() == Shape{3, 5});
      weights.clear();
      CHECK(message_of([&] { buckets.finish(); }) == "gradient buckets: finish without begin");
      buckets.begin();
    }
    backward(weights.loss(rank, 0));
  });
}

TEST_CASE("A bucket holds its gradients once, and plan holds the same bytes") {
  const auto peaks = [](const std::string& backend, std::int64_t bucket_bytes) {
    MemoryUse peak;
    run_ranks(ranks(2, backend), [&](Rank& rank) {
      const Weights weights(rank, std::vector<Shape>(16, Shape{1000}));
      GradientBuckets buckets(weights.partial(&rank.world), bucket_bytes);
      backward(weights.loss(rank, 0));
      buckets.begin();
      const Variable loss = weights.loss(rank, 0);
      rank.device.meter().reset_peak();
      backward(loss);
      buckets.finish();
      CHECK(rank.device.meter().live()[Category::gradients] == 16 * 4000);
      CHECK(rank.device.meter().live()[Category::communication] == 0);
      if (rank.index == 0) peak = rank.device.meter().peak();
    });
    return peak;
  };
  for (const std::int64_t bucket_bytes : {1, 8000, 1 << 20}) {
    const MemoryUse computed = peaks(tested_backend(), bucket_bytes);
    CHECK(computed.bytes == peaks("plan", bucket_bytes).bytes);
    // Weights, factors and gradients; some on their way; and a bucket while its gradients are copied to it.
    CHECK(computed.total() <= 4000 * (16 + 16 + 16 + 4) + std::min<std::int64_t>(bucket_bytes, 16 * 4000));
  }
}

TEST_CASE("An optimizer over flat shards and a gather make the same weights as one over whole tensors") {
  for (const OptimizerType type : {OptimizerType::sgd, OptimizerType::adamw})
    for (const std::int64_t bucket_bytes : {1, 100, 1 << 20})
      on_ranks(3, [type, bucket_bytes](Rank& rank) {
        const Weights whole(rank);
        const Weights split(rank);
        std::vector<TrainedWeight> all;
        std::vector<TrainedWeight> mine;
        std::vector<FlatSharded> shards;
        for (std::size_t i = 0; i < whole.values.size(); ++i) {
          all.push_back({"w" + std::to_string(i), whole.values[i]});
          mine.push_back({"w" + std::to_string(i), flat_shard(split.values[i], rank.world)});
          shards.push_back({split.values[i], &rank.world});
        }
        OptimizerConfig config;
        config.type = type;
        config.weight_decay = 0.1;
        const auto reference = make_optimizer(config, all);
        const std::int64_t before = rank.device.meter().live()[Category::optimizer];
        const auto optimizer = make_optimizer(config, mine);
        const std::int64_t state = rank.device.meter().live()[Category::optimizer] - before;
        CHECK(state < before / 3 + 4 * 2 * 6);
        GradientBuckets buckets(split.partial(&rank.world, true), bucket_bytes);
        for (int step = 0; step < 3; ++step) {
          backward(whole.loss(rank, step));
          reference->step(step, 1e-3, whole.reduced_one_by_one(rank));
          buckets.begin();
          backward(split.loss(rank, step));
          buckets.finish();
          std::vector<Tensor> gradients;
          for (const auto& accumulator : split.accumulators) gradients.push_back(accumulator->gradient());
          optimizer->step(step, 1e-3, gradients);
          gradients.clear();
          split.clear();
          const std::uint64_t version = split.values[3].storage()->version();
          gather_shards(shards, bucket_bytes);
          CHECK(split.values[3].storage()->version() > version);  // packed copies are stale
          for (std::size_t i = 0; i < whole.values.size(); ++i) CHECK(same_bits(split.values[i], whole.values[i]));
        }
        CHECK(rank.device.meter().live()[Category::communication] == 0);
      });
}

}  // namespace
}  // namespace heddle::test
