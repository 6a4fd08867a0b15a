// Redistributions between all placements, compared with the serial tensor.
#include "parallel/placement/redistribute.h"

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/transports.h"

namespace heddle::test {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

namespace {

constexpr Placement R = Placement::replicate();
constexpr Placement RP = Placement::replicate_partial();
constexpr Placement P = Placement::partial();
constexpr Placement S(int dimension) {
  return Placement::shard(dimension);
}

WorldOptions on(const Mesh& mesh, const std::string& backend = test::tested_backend()) {
  WorldOptions options = on_transport(mesh.size(), backend);
  options.mesh = mesh;
  return options;
}

void on_mesh(const Mesh& mesh, const std::function<void(Rank&)>& body) {
  if (can_run(mesh.size())) run(on(mesh), body);
}

/// The box of row-major values that a rank holds of `whole`.
std::vector<double> box_of(const std::vector<double>& whole, const Shape& shape, const std::vector<IndexRange>& box) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    bool is_inside = true;
    std::int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; rest /= shape[d--]) {
      const IndexRange& range = box[static_cast<std::size_t>(d)];
      is_inside = is_inside && rest % shape[d] >= range.begin && rest % shape[d] < range.end();
    }
    if (is_inside) values.push_back(whole[static_cast<std::size_t>(i)]);
  }
  return values;
}

/// Which ranks' terms make up a sum: the rank's own share of it, such that the shares over the axes `spread` partially
/// add up to 1 and differ from rank to rank.
template <class Of>
double share(const Placements& where, const Mesh& mesh, const Mesh::Coordinates& at, Of&& of) {
  double result = 1;
  for (const Axis axis : all_axes) {
    const int k = mesh.size(axis);
    if (k == 1 || of(where[axis]) != Spread::partial) continue;
    // 0.5, 1.5, .. but the last, which completes them to 1.
    const double others = 0.5 * (k - 1) * (k - 1);
    result *= at[axis] + 1 < k ? at[axis] + 0.5 : 1 - others;
  }
  return result;
}
double value_share(const Placements& where, const Mesh& mesh, const Mesh::Coordinates& at) {
  return share(where, mesh, at, [](const Placement& placement) { return placement.value(); });
}
double gradient_share(const Placements& where, const Mesh& mesh, const Mesh::Coordinates& at) {
  return share(where, mesh, at, [](const Placement& placement) { return placement.gradient(); });
}

/// The sum over the partial axes, which the ranks' shares must give, whichever rank holds which.
std::vector<double> summed(const Tensor& x, const Placements& where, Spread (Placement::*half)() const, Rank& rank) {
  Tensor total = x;
  for (const Axis axis : all_axes)
    if (rank.mesh.size(axis) > 1 && (where[axis].*half)() == Spread::partial)
      total = rank.along(axis).all_reduce(total);
  return total.to_doubles();
}

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

bool is_close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-12 * (1 + std::abs(b[i]))) return false;
  return true;
}

/// One value from `from` to `to` and its gradient back, on all ranks; the bytes that move are those foretold.
void check_pair(Rank& rank, const Shape& shape, const Placements& from, const Placements& to) {
  INFO("rank ", rank.index, " of ", to_string(rank.mesh), ", ", to_string(shape), ": ", to_string(from, rank.mesh),
       " -> ", to_string(to, rank.mesh));
  const Mesh& mesh = rank.mesh;
  const std::vector<double> whole = normal_values(shape.numel(), 1);
  const std::vector<double> gradient = normal_values(shape.numel(), 2);
  const auto before = local_box(shape, from, mesh, rank.coordinates);
  const auto after = local_box(shape, to, mesh, rank.coordinates);

  const auto accumulator = std::make_shared<Accumulator>(Category::gradients);
  const Tensor mine = tensor(rank.device, local_shape(shape, from, mesh, rank.coordinates),
                             scaled(box_of(whole, shape, before), value_share(from, mesh, rank.coordinates)));
  std::int64_t sent = rank.bytes.sent_bytes();
  const Placed y = redistribute({Variable::input(mine, accumulator), shape, from}, to, rank.groups);
  const std::int64_t sent_forward = rank.bytes.sent_bytes() - sent;
  CHECK(y.where == to);
  CHECK(y.value.shape() == local_shape(shape, to, mesh, rank.coordinates));
  CHECK(is_close(summed(y.value.value(), to, &Placement::value, rank), box_of(whole, shape, after)));

  // The loss is sum(gradient .* whole): each rank comes with its part, or its term, of the gradient.
  const Tensor dy = tensor(rank.device, y.value.shape(),
                           scaled(box_of(gradient, shape, after), gradient_share(to, mesh, rank.coordinates)));
  sent = rank.bytes.sent_bytes();
  backward({{y.value, dy}});
  const std::int64_t sent_backward = rank.bytes.sent_bytes() - sent;
  REQUIRE(accumulator->gradient().defined());
  CHECK(is_close(summed(accumulator->gradient(), from, &Placement::gradient, rank), box_of(gradient, shape, before)));

  std::int64_t forward = 0;
  std::int64_t backward = 0;
  for (const StepTraffic& step : redistribution_traffic(shape, DType::f64, from, to, mesh, rank.coordinates)) {
    forward += step.forward_bytes;
    backward += step.backward_bytes;
  }
  CHECK(sent_forward == forward);
  CHECK(sent_backward == backward);
}

std::vector<Placement> all_placements(const Shape& shape) {
  std::vector<Placement> placements{R, RP, P};
  for (int d = 0; d < shape.rank(); ++d) placements.push_back(S(d));
  return placements;
}

}  // namespace

TEST_CASE("every placement on one axis is redistributed to every other: value, gradient and bytes") {
  for (const int k : {2, 3, 4})
    for (const Shape& shape : {Shape{5, 7, 3}, Shape{2, 9}, Shape{4, 1, 6}})
      on_mesh(Mesh(1, 1, k), [&](Rank& rank) {
        for (const Placement& from : all_placements(shape))
          for (const Placement& to : all_placements(shape)) check_pair(rank, shape, {R, R, from}, {R, R, to});
      });
}

TEST_CASE("every placement on two axes is redistributed to every other: value, gradient and bytes") {
  for (const Mesh& mesh : {Mesh(2, 1, 2), Mesh(2, 1, 3), Mesh(2, 2, 1)})
    for (const Shape& shape : {Shape{7, 5}, Shape{3, 5}}) {
      if (is_sanitized && (shape[0] == 7) != (mesh.size(Axis::pp) > 1)) continue;
      on_mesh(mesh, [&](Rank& rank) {
        const Axis inner = mesh.size(Axis::tp) > 1 ? Axis::tp : Axis::pp;
        const std::vector<Placement> placements = all_placements(shape);
        const auto at = [&](const Placement& a, const Placement& b) {
          Placements where;
          where[Axis::dp] = a;
          where[inner] = b;
          return where;
        };
        for (const Placement& a : placements)
          for (const Placement& b : placements)
            for (const Placement& c : placements)
              for (const Placement& d : placements) check_pair(rank, shape, at(a, b), at(c, d));
      });
    }
}

TEST_CASE("three axes that cut one dimension are undone from within") {
  on_mesh(Mesh(2, 2, 2), [](Rank& rank) {
    const Shape shape{11, 3};
    check_pair(rank, shape, {S(0), S(0), S(0)}, {R, S(0), S(0)});
    check_pair(rank, shape, {R, S(0), S(0)}, {S(0), S(1), S(0)});
    check_pair(rank, shape, {S(0), P, S(1)}, {S(1), S(0), RP});
  });
}

TEST_CASE("class-sharded logits become sample-sharded ones") {
  on_mesh(Mesh(2), [](Rank& rank) {
    // 4 samples x 8 classes; sample i, class j holds 10 i + j.
    std::vector<double> mine;
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) mine.push_back(10 * i + 4 * rank.index + j);
    const Placed by_class{tensor(rank.device, {4, 4}, mine), {4, 8}, {S(1), R, R}};
    const Placed by_sample = mp2dp(by_class, 1, Axis::dp, rank.groups);
    const std::vector<double> first{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17};
    const std::vector<double> second{20, 21, 22, 23, 24, 25, 26, 27, 30, 31, 32, 33, 34, 35, 36, 37};
    CHECK(by_sample.value.shape() == Shape{2, 8});
    CHECK(by_sample.value.value().to_doubles() == (rank.index == 0 ? first : second));
    CHECK(by_sample.where == Placements{S(0), R, R});
    const Placed back = dp2mp(by_sample, 1, Axis::dp, rank.groups);
    CHECK(back.value.value().to_doubles() == mine);
  });
}

TEST_CASE("dp2mp and mp2dp with batches and channels that the ranks do not divide") {
  for (const int k : {2, 3, 4})
    on_mesh(Mesh(k), [](Rank& rank) {
      for (const auto& [batch, channels] : {std::pair{5, 7}, {1, 3}, {3, 2}, {0, 5}}) {
        const Shape shape{batch, 2, channels};
        check_pair(rank, shape, {S(0), R, R}, {S(2), R, R});
        check_pair(rank, shape, {S(2), R, R}, {S(0), R, R});
      }
    });
}

TEST_CASE("labels are moved as they are") {
  on_mesh(Mesh(3), [](Rank& rank) {
    const IndexRange mine = shard(7, 3, rank.index);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = mine.begin; i < mine.end(); ++i) labels.push_back(100 + i);
    const Placed whole = redistribute({integers(rank.device, labels), {7}, {S(0), R, R}}, {}, rank.groups);
    CHECK(whole.value.value().to_host<std::int64_t>() == std::vector<std::int64_t>{100, 101, 102, 103, 104, 105, 106});
  });
}

TEST_CASE("unchanged values and slices of rows are not copied") {
  on_mesh(Mesh(1, 1, 2), [](Rank& rank) {
    const Tensor x = Tensor::zeros(rank.device, {1, 6, 2}, DType::f32);
    const auto storage_after = [&](const Placements& from, const Placements& to) {
      return redistribute({x, x.shape(), from}, to, rank.groups).value.value().storage();
    };
    CHECK(storage_after({R, R, R}, {R, R, RP}) == x.storage());
    CHECK(storage_after({R, R, R}, {R, R, S(1)}) == x.storage());
    CHECK(storage_after({S(0), P, R}, {R, R, R}) == x.storage());
    CHECK(rank.bytes.sent_bytes() == 0);
  });
}

TEST_CASE("the steps are the cheapest: no axis sends more than it must") {
  const Mesh mesh(2, 1, 2);
  const auto steps = [&](const Placements& from, const Placements& to) {
    std::vector<std::string> text;
    for (const RedistributionStep& step : redistribution_steps(from, to, mesh)) text.push_back(to_string(step));
    return text;
  };
  using Steps = std::vector<std::string>;
  CHECK(steps({S(0), R, R}, {S(0), R, R}).empty());
  CHECK(steps({S(0), S(1), R}, {S(0), R, R}).empty());
  CHECK(steps({S(0), R, S(1)}, {S(0), R, R}) == Steps{"tp: S(1) -> R"});
  // The smaller tensor is reduced, then gathered.
  CHECK(steps({S(0), R, P}, {R, R, R}) == Steps{"tp: P -> R", "dp: S(0) -> R"});
  // Cut first, then there is less to send.
  CHECK(steps({R, R, S(1)}, {S(0), R, R}) == Steps{"dp: R -> S(0)", "tp: S(1) -> R"});
  // The outer axis changes its dimension only while no inner one cuts it.
  CHECK(steps({S(0), R, S(0)}, {S(1), R, S(0)}) == Steps{"tp: S(0) -> R", "dp: S(0) -> S(1)", "tp: R -> S(0)"});
  CHECK(steps({S(0), R, S(0)}, {R, R, R}) == Steps{"tp: S(0) -> R", "dp: S(0) -> R"});
}

TEST_CASE("placements print as R, S and P, and cut a dimension from the outer axis to the inner one") {
  const Mesh mesh(2, 1, 3);
  CHECK(to_string(Placements{S(0), P, RP}, mesh) == "dp S(0), tp R/P");
  CHECK(to_string(Placements{P, P, R}, mesh) == "dp P, tp R");
  CHECK(to_string(Placements{S(1), R, R}, Mesh()) == "R");
  CHECK(normalized({S(0), S(1), P}, mesh) == Placements{S(0), R, P});
  // 10 = 5 + 5, and 5 = 2 + 2 + 1.
  CHECK(local_box({10, 4}, {S(0), R, S(0)}, mesh, {1, 0, 2}) == std::vector<IndexRange>{{9, 1}, {0, 4}});
  CHECK(local_shape({10, 4}, {S(0), R, S(1)}, mesh, {0, 0, 0}) == Shape{5, 2});
}

TEST_CASE("redistributing a value that does not have its placement is an error that names both shapes") {
  on_mesh(Mesh(2, 1, 2), [](Rank& rank) {
    const auto says = [&](const Placed& x, const Placements& to, const std::string& text) {
      CHECK(message_of([&] { redistribute(x, to, rank.groups); }) == text);
    };
    const Tensor x = Tensor::zeros(rank.device, {4, 8}, DType::f32);
    says({x, {4, 8}, {S(0), R, R}}, {},
         fmt::format("redistribute: expected f32[2,8], rank {}'s part of [4,8] placed dp S(0), tp R, got f32[4,8]",
                     rank.index));
    says({{}, {4, 8}, {}}, {}, "redistribute: expected a value, got none");
    says({x, {4, 8}, {}}, {R, R, S(2)}, "placement dp R, tp S(2): [4,8] has no dimension 2");
    says({x, {4, 8}, {S(-1), R, R}}, {}, "placement dp S(-1), tp R: [4,8] has no dimension -1");
    says({integers(rank.device, {1, 2}), {2}, {}}, {R, R, P},
         "redistribute: a partial sum is of a floating-point type, got i64[2] placed dp R, tp P");
    CHECK(message_of([&] {
            dp2mp({x, {4, 8}, {}}, 1, Axis::tp, rank.groups);
          }) == "dp2mp: expected a value placed S(0) along tp, got dp R, tp R");
    CHECK(message_of([&] {
            mp2dp({x, {4, 8}, {}}, 1, Axis::dp, rank.groups);
          }) == "mp2dp: expected a value placed S(1) along dp, got dp R, tp R");
  });
}

TEST_CASE("plan sends and holds the same bytes without data") {
  if (!ranks_share_a_process()) return;
  const auto measure = [](const std::string& backend) {
    std::vector<std::vector<std::int64_t>> table(4);
    run(on(Mesh(2, 1, 2), backend), [&](Rank& rank) {
      const Shape shape{7, 5, 3};
      const Placements from{S(0), R, S(2)};
      const auto accumulator = std::make_shared<Accumulator>(Category::gradients);
      const Tensor mine = Tensor::zeros(rank.device, local_shape(shape, from, rank.mesh, rank.coordinates), DType::f32);
      Placed x{Variable::input(mine, accumulator), shape, from};
      for (const Placements& to : {Placements{S(1), R, S(0)}, Placements{P, R, P}, Placements{R, R, S(1)}})
        x = redistribute(x, to, rank.groups);
      backward({{x.value, Tensor::zeros_like(x.value.value())}});
      const MemoryUse peak = rank.device.meter().peak();
      auto& row = table[static_cast<std::size_t>(rank.index)];
      row.assign(peak.bytes.begin(), peak.bytes.end());
      row.push_back(rank.bytes.sent_bytes());
      row.push_back(rank.bytes.received_bytes());
    });
    return table;
  };
  CHECK(measure("plan") == measure(test::tested_backend()));
}

TEST_CASE("a redistribution takes the time of its slowest groups, step by step") {
  const LinkModel links{.within_node = {1e-6, 1e9}, .between_nodes = {1e-5, 1e8}, .ranks_per_node = 2};
  const Mesh mesh(2, 1, 2);
  // Along tp within a node, along dp between two: gathering [8,2] of f32 (64 bytes), half of which each rank has.
  const RedistributionSeconds within = redistribution_seconds(links, {8, 2}, DType::f32, {R, R, S(0)}, {}, mesh);
  CHECK(within.forward == close_to(1e-6 + 32e-9).epsilon(1e-12));
  CHECK(within.backward == 0);
  const RedistributionSeconds between =
      redistribution_seconds(links, {8, 2}, DType::f32, {S(0), R, R}, {RP, R, R}, mesh);
  CHECK(between.forward == close_to(1e-5 + 32e-8).epsilon(1e-12));
  CHECK(between.backward == close_to(1e-5 + 32e-8).epsilon(1e-12));
  // [8,2] to columns: a rank keeps half of its 32 bytes.
  const RedistributionSeconds turned =
      redistribution_seconds(links, {8, 2}, DType::f32, {R, R, S(0)}, {R, R, S(1)}, mesh);
  CHECK(turned.forward == close_to(1e-6 + 16e-9).epsilon(1e-12));
}

}  // namespace heddle::test
