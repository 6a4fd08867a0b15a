// Collectives in the graph: gradients across ranks against finite differences.
#include "parallel/communicator/collective_ops.h"

#include <string>

#include <doctest/doctest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/transports.h"

namespace heddle::test::collective_ops_test {

namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

using Rows = std::vector<std::int64_t>;
/// The graph's operation on this rank's x.
using Run = std::function<Variable(const Variable& x, Rank& rank)>;

/// This rank's loss, a different function of its result on every rank; of a token a constant.
Variable loss_of(const Variable& y, int seed, Rank& rank) {
  if (y.dtype() != DType::f64) return tie(Tensor::zeros(rank.device, {}, DType::f64), std::vector{y});
  const auto weights = normal_values(y.value().numel(), static_cast<std::uint64_t>(seed));
  return sum(multiply(square(y), tensor(rank.device, y.shape(), weights)));
}

/// For every rank's every element: the derivative of the loss, which is the ranks' sum if they differ, else the one
/// that all have, against the central difference (exact for these quadratic losses).
void check_gradients(int count, bool losses_differ, const Run& run) {
  on_ranks(count, [&](Rank& rank) {
    const Shape shape{3, 2};
    std::vector<double> x = normal_values(shape.numel(), 10 + static_cast<std::uint64_t>(rank.index));
    const auto loss = [&](std::shared_ptr<Accumulator> accumulator) {
      const Variable leaf = Variable::input(tensor(rank.device, shape, x), std::move(accumulator));
      return loss_of(run(leaf, rank), losses_differ ? 20 + rank.index : 20, rank);
    };
    const auto total = [&] {
      const NoGrad no_grad(rank.device);
      const Tensor mine = loss(std::make_shared<Accumulator>(Category::gradients)).value();
      const Tensor all = losses_differ ? Tensor(rank.world.all_reduce(mine)) : mine;
      return all.item();
    };
    const auto accumulator = std::make_shared<Accumulator>(Category::gradients);
    backward(loss(accumulator));
    const std::vector<double> gradient =
        accumulator->gradient().defined() ? accumulator->gradient().to_doubles() : std::vector<double>(x.size(), 0.0);
    constexpr double h = 1e-3;
    for (int r = 0; r < rank.size; ++r)
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double before = x[i];
        if (rank.index == r) x[i] = before + h;
        const double above = total();
        if (rank.index == r) x[i] = before - h;
        const double below = total();
        x[i] = before;
        INFO("rank ", r, " of ", rank.size, ", element ", i);
        if (rank.index == r) CHECK(std::abs(gradient[i] - (above - below) / (2 * h)) < 1e-7);
      }
  });
}

Rows rows_to(const Rank& rank) {
  // 3 rows among the ranks, in another way on each.
  Rows rows(static_cast<std::size_t>(rank.size), 0);
  for (int i = 0; i < 3; ++i) ++rows[static_cast<std::size_t>((i * (rank.index + 1)) % rank.size)];
  return rows;
}

}  // namespace

TEST_CASE("collectives in the graph have their duals as the backward: gradients across ranks") {
  for (const int count : {1, 2, 3}) {
    const auto check = [&](const std::string& name, const Run& run) {
      INFO(name);
      check_gradients(count, true, run);
    };
    check("all_reduce", [](const Variable& x, Rank& rank) { return all_reduce(x, rank.world); });
    check("all_gather", [](const Variable& x, Rank& rank) { return all_gather(x, rank.world); });
    check("all_gather, uneven", [](const Variable& x, Rank& rank) {
      // Rank 0 has all its rows, rank 1 two, rank 2 one.
      Rows rows;
      for (int p = 0; p < rank.size; ++p) rows.push_back(3 - p);
      const Variable mine = slice(x, 0, 0, 3 - rank.index);
      return all_gather(mine, rows, rank.world);
    });
    check("reduce_scatter", [](const Variable& x, Rank& rank) { return reduce_scatter(x, rank.world); });
    check("reduce_scatter, uneven", [](const Variable& x, Rank& rank) {
      Rows rows(static_cast<std::size_t>(rank.size), 0);
      rows.back() = 3;
      return reduce_scatter(x, rows, rank.world);
    });
    check("all_to_all", [](const Variable& x, Rank& rank) { return all_to_all(x, rows_to(rank), rank.world); });
    const int root = count - 1;
    check("broadcast", [root](const Variable& x, Rank& rank) { return broadcast(x, root, rank.world); });
    check("reduce", [root](const Variable& x, Rank& rank) { return reduce(x, root, rank.world); });
    check("gather", [root](const Variable& x, Rank& rank) { return gather(x, root, rank.world); });
    check("scatter", [root](const Variable& x, Rank& rank) { return scatter(x, rows_to(rank), root, rank.world); });
  }
}

TEST_CASE("a replicated gradient is not summed again") {
  for (const int count : {2, 3}) {
    check_gradients(count, false,
                    [](const Variable& x, Rank& rank) { return all_reduce(x, rank.world, Spread::replicated); });
    check_gradients(count, false,
                    [](const Variable& x, Rank& rank) { return all_gather(x, rank.world, Spread::replicated); });
  }
}

TEST_CASE("messages in the graph carry gradients back") {
  check_gradients(2, true, [](const Variable& x, Rank& rank) {
    return rank.index == 0 ? send(x, 1, rank.world) : multiply(recv(0, rank.world), x);
  });
  // There and back again: the sender's token is passed after the gradient has come back.
  check_gradients(2, true, [](const Variable& x, Rank& rank) {
    if (rank.index == 1) return send(multiply(recv(0, rank.world), x), 0, rank.world);
    const Variable sent = send(x, 1, rank.world);
    return tie(recv(1, rank.world), std::vector{sent});
  });
  // A ring.
  for (const int count : {2, 3})
    check_gradients(count, true, [](const Variable& x, Rank& rank) {
      return exchange(x, (rank.index + 1) % rank.size, (rank.index + rank.size - 1) % rank.size, rank.world);
    });
}

TEST_CASE("a rank without a gradient for a collective's result takes part in its backward with zeros") {
  // Rank 1 does not use the result; without its part of the backward pass, rank 0 would wait forever.
  check_gradients(2, true, [](const Variable& x, Rank& rank) {
    const Variable all = all_gather(x, rank.world);
    if (rank.index == 0) return all;
    return record(x.value(), {x, all}, [](const Tensor& dy, Wanted) { return Gradients{dy, Tensor()}; });
  });
  // Rank 1 passes a constant: it does not need the gradient that rank 0 sends, but both ranks must make the call.
  check_gradients(2, true, [](const Variable& x, Rank& rank) {
    if (rank.index == 0) return multiply(exchange(x, 1, 1, rank.world), x);
    return exchange(Tensor::full(rank.device, x.shape(), x.dtype(), 2), 0, 0, rank.world);
  });
}

TEST_CASE("integers are passed as constants") {
  on_ranks(2, [](Rank& rank) {
    const Variable labels = broadcast(rank.index == 0 ? Variable(numbers(rank, {3, 4})) : Variable(), 0, rank.world);
    CHECK(labels.value().to_host<std::int64_t>() == std::vector<std::int64_t>{3, 4});
    CHECK_FALSE(labels.leads().anywhere());
    const Variable all = all_gather(numbers(rank, {rank.index}), rank.world);
    CHECK(all.value().to_host<std::int64_t>() == std::vector<std::int64_t>{0, 1});
  });
}

TEST_CASE("collectives in the graph say what they expected") {
  on_ranks(2, [](Rank& rank) {
    const auto says = [](const std::function<void()>& action, const std::string& text) {
      CHECK(message_of(action) == text);
    };
    const Variable x = Tensor::zeros(rank.device, {3, 2}, DType::f32);
    says([&] { all_reduce(Variable(), rank.world); }, "all_reduce: expected a value, got none");
    says(
        [&] {
          all_to_all(x, Rows{1, 1}, rank.world);
        },
        "all_to_all: expected 2 numbers of rows that make up f32[3,2], got [1,1]");
    if (rank.index == 0)
      says([&] { scatter(x, Rows{3}, 0, rank.world); },
           "scatter: expected 2 numbers of rows that make up f32[3,2], got [3]");
    rank.world.barrier().wait();
    const Variable mine = Tensor::zeros(rank.device, {1 + 3 * rank.index, 2}, DType::f32);
    says([&] { all_gather(mine, rank.world); },
         fmt::format("all_gather: expected {} of 5 rows on rank {}, got f32[{},2]", rank.index == 0 ? 3 : 2, rank.index,
                     rank.index == 0 ? 1 : 4));
  });
}

}  // namespace heddle::test::collective_ops_test
