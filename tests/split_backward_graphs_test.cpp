// Graphs of which nobody thought: drawn ones, and such with collectives. In two parts they give the bits of a whole
// pass.
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/linear.h"
#include "framework/ops/normalization.h"
#include "parallel/collective_ops.h"
#include "parallel/flat_shard.h"
#include "parallel/gathered_weights.h"
#include "tests/support/leaves.h"
#include "tests/support/transports.h"

namespace heddle::test {
namespace {

/// A graph of random operations on [6, 4], most of them with parameters that others read too, some with products of
/// parameters alone.
class RandomGraph {
 public:
  RandomGraph(Device& device, std::uint64_t seed) : device_(device), seed_(seed) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      inputs.emplace_back(device, i == 2 ? Kind::constant : Kind::input, Shape{6, 4}, 10 * seed + i, DType::f32);
      channels_.push_back(leaves.size());
      leaves.emplace_back(device, Kind::parameter, Shape{4}, 20 * seed + i, DType::f32);
      matrices_.push_back(leaves.size());
      leaves.emplace_back(device, Kind::parameter, Shape{4, 4}, 30 * seed + i, DType::f32);
    }
  }

  std::vector<Root> forward() const {
    RandomStream draw({seed_}, Purpose::test, 3, 0);
    std::vector<Variable> values;
    for (const Leaf& input : inputs) values.push_back(input.variable);
    const auto any = [&](const auto& of) -> const auto& {
      return of[draw.below(of.size())];
    };
    const auto channel = [&] {
      const Variable& p = leaves[any(channels_)].variable;
      return draw.below(3) == 0 ? multiply(p, leaves[any(channels_)].variable) : p;
    };
    const auto matrix = [&] {
      const Variable& p = leaves[any(matrices_)].variable;
      return draw.below(3) == 0 ? matmul(p, leaves[any(matrices_)].variable) : p;
    };
    for (int i = 0; i < 25; ++i) {
      const Variable& x = any(values);
      switch (draw.below(8)) {
        case 0:
          values.push_back(linear(x, matrix(), channel()));
          break;
        case 1:
          values.push_back(multiply(x, channel()));
          break;
        case 2:
          values.push_back(add(x, any(values)));
          break;
        case 3:
          values.push_back(heddle::tanh(x));
          break;
        case 4:
          values.push_back(prelu(x, channel()));
          break;
        case 5:
          values.push_back(add_bias(x, channel()));
          break;
        case 6:
          values.push_back(layer_norm(x, channel(), channel(), 1e-5));
          break;
        default: {
          Tensor statistics;
          values.push_back(batch_norm(x, channel(), channel(), 1e-5, {.residual = any(values)}, statistics));
        }
      }
    }
    std::vector<Root> roots;
    for (std::size_t i = values.size() - 3; i < values.size(); ++i)
      if (values[i].leads().anywhere()) roots.push_back(root_of(heddle::tanh(values[i]), seed_ + i));
    return roots;
  }

  std::vector<Leaf> inputs;
  std::vector<Leaf> leaves;

 private:
  Device& device_;
  std::uint64_t seed_;
  std::vector<std::size_t> channels_;
  std::vector<std::size_t> matrices_;
};

TEST_CASE("Random graphs of several micro-batches get the same bits in two parts, in any order of the parts") {
  Device device = make_device();
  constexpr int micro_batches = 3;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomGraph whole(device, seed);
    const RandomGraph split(device, seed);
    for (int i = 0; i < micro_batches; ++i) backward(whole.forward());
    RandomStream draw({seed}, Purpose::test, 4, 0);
    std::vector<WeightBackward> weights;
    for (std::size_t done = 0; done < micro_batches;) {
      const bool can_go_on = weights.size() < micro_batches;
      if (can_go_on && (done == weights.size() || draw.below(2) == 0))
        weights.push_back(backward_inputs(split.forward()));
      else
        weights[done++].run();
    }
    CHECK_MESSAGE(gradients_of(split.inputs) == gradients_of(whole.inputs), "seed " << seed);
    CHECK_MESSAGE(gradients_of(split.leaves) == gradients_of(whole.leaves), "seed " << seed);
    for (const Leaf& leaf : split.leaves) CHECK(leaf.accumulator->pending_readers() == 0);
  }
}

/// Collectives of every sort between operations with parameters, tensor-parallel fashion and with gathered weights.
Variable communicating(const Leaf& x, const Leaf& matrix, const Leaf& shard, Rank& rank) {
  Variable y = linear(x.variable, matrix.variable, {});
  y = all_reduce(y, rank.world);
  const GatheredWeight gathered{shard.variable, Shape{4, 4}, &rank.world};
  y = with_gathered(std::span(&gathered, 1),
                    [&](std::span<const Variable> whole) { return heddle::tanh(linear(y, whole[0], {})); });
  y = linear(all_gather(y, rank.world), matrix.variable, {});
  return add(y, broadcast(matrix.variable, 0, rank.world));
}

TEST_CASE("Collectives within a split pass give the whole pass's bits on every rank") {
  for (const int count : {1, 2, 4})
    on_ranks(count, [count](Rank& rank) {
      const auto leaf = [&](Kind kind, const Shape& shape, int seed) {
        return Leaf(kind, Tensor::from_host(rank.device, shape, values<float>(rank.index + seed, shape.numel())));
      };
      const std::int64_t mine = flat_range(Tensor::empty(rank.device, {4, 4}, DType::f32), rank.world, rank.index).size;
      std::vector<std::vector<std::vector<double>>> results;
      for (const bool is_split : {false, true}) {
        const std::vector<Leaf> leaves{leaf(Kind::input, {4 / count, 4}, 1), leaf(Kind::parameter, {4, 4}, 2),
                                       leaf(Kind::parameter, {mine}, 3)};
        const auto root = [&] { return root_of(communicating(leaves[0], leaves[1], leaves[2], rank)); };
        if (is_split) {
          WeightBackward first = backward_inputs({root()});
          WeightBackward second = backward_inputs({root()});
          CHECK(leaves[2].gradient().empty());
          first.run();
          second.run();
        } else {
          backward({root()});
          backward({root()});
        }
        results.push_back(gradients_of(leaves));
      }
      CHECK(results[0] == results[1]);
      CHECK(rank.device.meter().live()[Category::communication] == 0);
    });
}

}  // namespace
}  // namespace heddle::test
