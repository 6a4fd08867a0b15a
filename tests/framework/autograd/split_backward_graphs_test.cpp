// Random graphs, with and without collectives: a backward pass in two parts gives the bits of a whole pass.
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/linear_algebra.h"
#include "parallel/communicator/collective_ops.h"
#include "parallel/placement/flat_shard.h"
#include "parallel/placement/gathered_weights.h"
#include "tests/support/autograd/random_graph.h"
#include "tests/support/transports.h"

namespace heddle::test {
namespace {

TEST_CASE("Random graphs of several micro-batches get the same bits in two parts and in segments run again") {
  Device device = make_device();
  constexpr int micro_batches = 3;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomGraph whole(device, seed);
    for (int i = 0; i < micro_batches; ++i) backward(whole.forward());
    const auto check = [&whole, seed](const RandomGraph& graph) {
      CHECK_MESSAGE(gradients_of(graph.inputs) == gradients_of(whole.inputs), "seed " << seed);
      CHECK_MESSAGE(gradients_of(graph.parameters) == gradients_of(whole.parameters), "seed " << seed);
      for (const Leaf& leaf : graph.parameters) CHECK(leaf.accumulator->pending_readers() == 0);
    };
    for (const bool recomputes : {false, true}) {
      const RandomGraph split(device, seed);
      RandomStream draw({seed}, Purpose::test, 4, 0);
      std::vector<WeightBackward> weights;
      for (std::size_t done = 0; done < micro_batches;) {
        const bool can_go_on = weights.size() < micro_batches;
        if (can_go_on && (done == weights.size() || draw.below(2) == 0))
          weights.push_back(backward_inputs(split.forward(recomputes)));
        else
          weights[done++].run();
      }
      check(split);
    }
    const RandomGraph again(device, seed);
    std::vector<std::vector<Root>> forwards;
    for (int i = 0; i < micro_batches; ++i) forwards.push_back(again.forward(true));
    for (std::vector<Root>& roots : forwards) backward(std::move(roots));
    check(again);
  }
}

/// Collectives of every kind between operations with parameters, as in tensor parallelism and with gathered weights.
Variable communicating(const Variable& x, const Leaf& matrix, const Leaf& shard, Rank& rank) {
  Variable y = linear(x, matrix.variable, {});
  y = all_reduce(y, rank.world);
  const GatheredWeight gathered{shard.variable, Shape{4, 4}, &rank.world};
  y = with_gathered(std::span(&gathered, 1),
                    [&](std::span<const Variable> whole) { return heddle::tanh(linear(y, whole[0], {})); });
  y = linear(all_gather(y, rank.world), matrix.variable, {});
  return add(y, broadcast(matrix.variable, 0, rank.world));
}

TEST_CASE("Collectives within split passes and recomputed segments give the whole pass's bits on every rank") {
  for (const int count : {1, 2, 4})
    on_ranks(count, [count](Rank& rank) {
      const auto leaf = [&](Kind kind, const Shape& shape, int seed) {
        return Leaf(kind, Tensor::from_host(rank.device, shape, values<float>(rank.index + seed, shape.numel())));
      };
      const std::int64_t mine = flat_range(Tensor::empty(rank.device, {4, 4}, DType::f32), rank.world, rank.index).size;
      std::vector<std::vector<std::vector<double>>> results;
      struct Way {
        bool recomputes;
        bool is_split;
      };
      for (const auto [recomputes, is_split] : {Way{false, false}, {false, true}, {true, false}, {true, true}}) {
        const std::vector<Leaf> leaves{leaf(Kind::input, {4 / count, 4}, 1), leaf(Kind::parameter, {4, 4}, 2),
                                       leaf(Kind::parameter, {mine}, 3)};
        const auto root = [&, again = recomputes] {
          const auto run = [&](std::span<const Variable> x, bool) {
            return std::vector<Variable>{communicating(x[0], leaves[1], leaves[2], rank)};
          };
          const std::vector<Variable> x{leaves[0].variable};
          return root_of(again ? recompute_segment(x, run).front() : run(x, false).front());
        };
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
        CHECK(results.back() == results.front());
      }
      CHECK(rank.device.meter().live()[Category::communication] == 0);
    });
}

}  // namespace
}  // namespace heddle::test
