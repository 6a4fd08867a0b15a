#include "parallel/placement/gathered_weights.h"

#include <doctest/doctest.h>

#include "framework/ops/convolution.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "parallel/placement/flat_shard.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/message.h"
#include "tests/support/transports.h"

namespace heddle::test {
namespace {

/// A weight whole, and again as this rank's shard.
struct Weight {
  Shape shape;
  Communicator* ranks;
  std::shared_ptr<Accumulator> whole_gradient = std::make_shared<Accumulator>(Category::gradients);
  std::shared_ptr<Accumulator> shard_gradient = std::make_shared<Accumulator>(Category::gradients);
  Variable whole;
  Variable shard;

  Weight(Rank& rank, const Shape& size, int seed) : shape(size), ranks(&rank.world) {
    std::vector<float> elements = values<float>(seed, shape.numel());
    for (float& element : elements) element *= 1e-3F;
    const MemoryScope scope(rank.device, Category::parameters);
    const Tensor value = Tensor::from_host(rank.device, shape, elements);
    whole = Variable::parameter(value, whole_gradient);
    const IndexRange mine = flat_range(value, *ranks, ranks->rank());
    shard = Variable::parameter(value.reshape({-1}).rows(mine.begin, mine.end()).clone(), shard_gradient);
  }
  GatheredWeight gathered() const { return {shard, shape, ranks}; }

  /// The reference sums whole gradients, then takes its part.
  void check_gradients() const {
    const Tensor sum = ranks->all_reduce(whole_gradient->gradient());
    const Tensor expected = flat_shard(sum, *ranks).reshape({-1});
    REQUIRE(shard_gradient->gradient().shape() == expected.shape());
    CHECK(shard_gradient->gradient().to_host<float>() == expected.to_host<float>());
  }
};

using Wholes = std::span<const Variable>;

Variable with_one(const Weight& weight, const std::function<Variable(const Variable&)>& use) {
  const GatheredWeight gathered = weight.gathered();
  return with_gathered(std::span(&gathered, 1), [&use](Wholes whole) { return use(whole[0]); });
}

TEST_CASE("Gathered weights give the results and gradients of whole ones, for any number of ranks") {
  for (const int count : {1, 2, 3, 8})
    on_ranks(count, [](Rank& rank) {
      const Weight kernel(rank, {4, 3, 3, 2}, 21);
      const Weight weight(rank, {5, 4 * 6 * 6}, 22);
      const Weight bias(rank, {5}, 23);  // fewer elements than eight ranks
      const auto convolve = [](const Variable& image, const Variable& w) {
        return conv2d(image, w, {}, {.padding = {1, 1}});
      };
      const auto classify = [](const Variable& y, const Variable& w, const Variable& b) {
        return linear(reshape(heddle::tanh(y), {2, -1}), w, b);
      };
      const auto reference = [&](const Variable& x) {
        return classify(convolve(x, kernel.whole), weight.whole, bias.whole);
      };
      const auto gathered = [&](const Variable& x) {
        const Variable y = with_one(kernel, [&](const Variable& w) { return convolve(x, w); });
        const std::vector<GatheredWeight> both{weight.gathered(), bias.gathered()};
        return with_gathered(both, [&](Wholes w) { return classify(y, w[0], w[1]); });
      };
      const Variable x = Tensor::from_host(rank.device, {2, 6, 6, 2}, values<float>(rank.index, 144));
      const Variable expected = reference(x);
      const Variable y = gathered(x);
      CHECK(y.value().to_host<float>() == expected.value().to_host<float>());
      {
        // An evaluation in between has its own copies.
        const NoGrad no_grad(rank.device);
        CHECK(gathered(x).value().to_host<float>() == expected.value().to_host<float>());
      }
      backward(sum(square(expected)));
      backward(sum(square(y)));
      for (const Weight* each : {&kernel, &weight, &bias}) each->check_gradients();
      CHECK(rank.device.meter().live()[Category::communication] == 0);
    });
}

TEST_CASE("A gathered weight may be used twice, within one use and in two, and by two forwards at once") {
  on_ranks(3, [](Rank& rank) {
    const Weight weight(rank, {7, 7}, 5);
    const Variable x = rows_of(rank, 4, 7);
    const auto twice = [](const Variable& y, const Variable& w) {
      return heddle::tanh(linear(heddle::tanh(linear(y, w, {})), w, {}));
    };
    const auto reference = [&] { return twice(twice(x, weight.whole), weight.whole); };
    const auto gathered = [&] {
      const Variable y = with_one(weight, [&](const Variable& w) { return twice(x, w); });
      return with_one(weight, [&](const Variable& w) { return twice(y, w); });
    };
    backward(sum(reference()));
    const Variable first = gathered();
    const Variable second = gathered();
    const Tensor seed = Tensor::full(rank.device, first.shape(), DType::f32, 1);
    backward({{first, seed}});
    const std::vector<float> once = weight.shard_gradient->gradient().to_host<float>();
    const Tensor whole = rank.world.all_reduce(weight.whole_gradient->gradient());
    const Tensor expected = flat_shard(whole, rank.world);
    // Two uses are two sums over the ranks here, one there.
    for (std::size_t i = 0; i < once.size(); ++i)
      CHECK(once[i] == close_to(expected.to_host<float>()[i]).epsilon(1e-5));
    weight.shard_gradient->clear();
    backward({{second, seed}});
    CHECK(weight.shard_gradient->gradient().to_host<float>() == once);
  });
}

TEST_CASE("A packed convolution weight is packed anew after each gathering") {
  on_ranks(2, [](Rank& rank) {
    const Weight kernel(rank, {32, 3, 3, 32}, 3);
    const Variable x = Tensor::from_host(rank.device, {1, 8, 8, 32}, values<float>(rank.index, 2048));
    Variable reference = x;
    Variable y = x;
    for (int i = 0; i < 2; ++i) {
      reference = conv2d(reference, kernel.whole, {}, {.padding = {1, 1}});
      y = with_one(kernel, [&](const Variable& w) { return conv2d(y, w, {}, {.padding = {1, 1}}); });
    }
    CHECK(y.value().to_host<float>() == reference.value().to_host<float>());
    backward(sum(reference));
    backward(sum(y));
    const Tensor sum = rank.world.all_reduce(kernel.whole_gradient->gradient());
    const std::vector<float> expected = flat_shard(sum, rank.world).to_host<float>();
    const std::vector<float> got = kernel.shard_gradient->gradient().to_host<float>();
    double scale = 0;
    for (const float value : expected) scale = std::max(scale, std::abs(static_cast<double>(value)));
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) <= 1e-5 * scale);
    CHECK(rank.device.meter().live()[Category::workspace] < 2 * 4 * 32 * 32 * 9 + 1);  // the reference's copies only
  });
}

TEST_CASE("At most one layer's weights are whole at a time, computed and on plan alike") {
  static constexpr std::int64_t width = 64;
  static constexpr std::int64_t layers = 8;
  static constexpr std::int64_t weight_bytes = 4 * width * width;
  std::vector<MemoryUse> peaks;
  for (const std::string& backend : {tested_backend(), std::string("plan")}) {
    run_ranks(ranks(4, backend), [&peaks](Rank& rank) {
      std::vector<Variable> shards;
      std::vector<std::shared_ptr<Accumulator>> gradients;
      Communicator& group = rank.world;
      for (int i = 0; i < layers; ++i) {
        const MemoryScope scope(rank.device, Category::parameters);
        gradients.push_back(std::make_shared<Accumulator>(Category::gradients));
        shards.push_back(
            Variable::parameter(Tensor::full(rank.device, {width * width / 4}, DType::f32, 0.01), gradients.back()));
      }
      MemoryMeter& meter = rank.device.meter();
      const auto forward = [&] {
        Variable y = Tensor::full(rank.device, {1, width}, DType::f32, 1);
        for (const Variable& shard : shards) {
          const GatheredWeight weight{shard, {width, width}, &group};
          y = with_gathered(std::span(&weight, 1), [&](Wholes w) { return linear(y, w[0], {}); });
          CHECK(meter.live()[Category::communication] == 0);
        }
        return y;
      };
      meter.reset_peak();
      const Variable y = forward();
      CHECK(meter.peak()[Category::communication] == weight_bytes);
      // The shards, one whole weight, and the product's workspace beside small activations.
      CHECK(meter.peak().total() <=
            layers * weight_bytes / 4 + weight_bytes + meter.peak()[Category::workspace] + 4000);
      meter.reset_peak();
      backward(sum(y));
      CHECK(meter.live()[Category::communication] == 0);
      CHECK(meter.live()[Category::gradients] == layers * weight_bytes / 4);
      // Shards, their gradients, one whole weight and its whole gradient.
      CHECK(meter.peak().total() <= 2 * layers * weight_bytes / 4 + 2 * weight_bytes + 8000);
      if (rank.index == 1) peaks.push_back(meter.peak());
      meter.reset_peak();
      const std::int64_t sent = rank.bytes.sent_bytes();
      backward(sum(forward()));
      // Twice gathered, once scattered: 3 (k-1)/k n.
      CHECK(rank.bytes.sent_bytes() - sent == layers * 3 * 3 * weight_bytes / 4);
      const NoGrad no_grad(rank.device);
      meter.reset_peak();
      forward();
      CHECK(meter.peak()[Category::communication] == weight_bytes);
    });
  }
  CHECK(peaks[0].bytes == peaks[1].bytes);
}

TEST_CASE("A shard of the wrong size and a result that is a view of the weight are refused") {
  const auto message = [](const std::function<void(const Weight&)>& body) {
    return message_of([&body] { run_ranks(ranks(2), [&body](Rank& rank) { body(Weight(rank, {3, 3}, 1)); }); });
  };
  CHECK(message([](const Weight& weight) {
          const GatheredWeight wrong{weight.shard, {3, 4}, weight.ranks};
          with_gathered(std::span(&wrong, 1), [](Wholes w) { return sum(w[0]); });
        }) == "gathered weight: expected a shard f32[6] of f32[3,4], got f32[5]");
  CHECK(message([](const Weight& weight) { with_one(weight, [](const Variable& w) { return reshape(w, {9}); }); }) ==
        "rank 0 failed: gathered weight: the result f32[9] is a view of it");
}

TEST_CASE("Released bytes cannot be read until they are filled again") {
  on_ranks(1, [](Rank& rank) {
    MemoryMeter& meter = rank.device.meter();
    const Tensor x = Tensor::full(rank.device, {4}, DType::f32, 1);
    const Tensor view = x.rows(2, 4);
    const std::uint64_t version = x.storage()->version();
    x.storage()->derived().push_back({1, version, Tensor::full(rank.device, {8}, DType::f32, 0).storage()});
    x.storage()->release();
    CHECK(meter.live().total() == 0);
    CHECK(message_of([&] { view.to_doubles(); }) == "tensor: its 16 bytes are released and cannot be read");
    CHECK(message_of([&] { x.storage()->release(); }) == "tensor: its 16 bytes are already released");
    const Tensor small = Tensor::full(rank.device, {3}, DType::f32, 2);
    CHECK(message_of([&] { x.storage()->refill(*small.storage()); }) == "tensor: 16 bytes cannot be refilled from 12");
    {
      const MemoryScope scope(rank.device, Category::communication);
      const Tensor source = Tensor::full(rank.device, {4}, DType::f32, 3);
      x.storage()->refill(*source.storage());
    }
    CHECK(view.to_doubles() == std::vector<double>{3, 3});
    CHECK(x.storage()->version() > version);
    CHECK(meter.live()[Category::communication] == 16);
  });
}

}  // namespace
}  // namespace heddle::test
