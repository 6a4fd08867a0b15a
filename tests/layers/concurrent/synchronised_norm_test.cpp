#include <cmath>

#include <doctest/doctest.h>

#include "framework/ops/normalization.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"

namespace heddle::test::synchronised_norm_test {
namespace {

/// Exchanges over all ranks of the world.
class WorldStatistics final : public StatisticsGroup {
 public:
  explicit WorldStatistics(Communicator& world) : world_(world) {}
  Tensor gather(const Tensor& row) override { return world_.all_gather(row); }
  Tensor sum(const Tensor& sums) override { return world_.all_reduce(sums); }

 private:
  Communicator& world_;
};

constexpr std::int64_t norm_channels = 5;
constexpr std::int64_t pixels = 2;

struct Case {
  const char* name;
  NormActivation activation = NormActivation::none;
  bool has_residual = false;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.name = "affine"},
      {.name = "relu", .activation = NormActivation::relu},
      {.name = "prelu", .activation = NormActivation::prelu},
      {.name = "residual", .has_residual = true},
      {.name = "residual and relu", .activation = NormActivation::relu, .has_residual = true},
  };
  return all;
}

struct Result {
  Values y, dx, dresidual;       // of the rows at hand
  Values dgamma, dbeta, dslope;  // sums over them
  Values statistics, running_mean, running_variance;
};

/// Samples begin .. end-1 of a drawn batch through a norm and back.
Result run(Device& device, const Case& c, DType dtype, std::int64_t begin, std::int64_t end,
           const std::shared_ptr<StatisticsGroup>& group) {
  const DType type = compute_dtype(dtype);
  constexpr std::int64_t max_rows = 8;
  const auto rows = [&](std::uint64_t seed, double mean) {
    Values values = normal_values(max_rows * pixels * norm_channels, seed);
    for (double& value : values) value += mean;
    return tensor(device, {max_rows, pixels, norm_channels}, values, dtype).rows(begin, end).clone();
  };
  std::vector<std::shared_ptr<Accumulator>> gradients;
  const auto leaf = [&](Tensor value) {
    gradients.push_back(std::make_shared<Accumulator>(Category::gradients));
    return Variable::parameter(std::move(value), gradients.back());
  };
  const auto of_channels = [&](std::uint64_t seed) {
    return tensor(device, {norm_channels}, normal_values(norm_channels, seed), type);
  };
  const Variable x = leaf(rows(1, 3));
  const Variable residual = leaf(rows(2, 0));
  const Variable gamma = leaf(of_channels(3));
  const Variable beta = leaf(of_channels(4));
  const Variable slope = leaf(of_channels(5));
  const NormEpilogue epilogue{.activation = c.activation,
                              .slope = c.activation == NormActivation::prelu ? slope : Variable(),
                              .residual = c.has_residual ? residual : Variable()};
  Tensor statistics;
  const Variable y = batch_norm(x, gamma, beta, 1e-3, epilogue, statistics, group);
  backward({{y, rows(6, 0)}});
  Tensor mean = Tensor::full(device, {norm_channels}, type, 0.5);
  Tensor variance = Tensor::full(device, {norm_channels}, type, 2);
  device.backend().normalization().merge_moments(statistics.reshape({1, -1}), 0.1, mean, variance);
  const auto values_of = [](const Tensor& t) { return t.defined() ? t.to_doubles() : Values(); };
  return {values_of(y.value()),
          values_of(gradients[0]->gradient()),
          values_of(gradients[1]->gradient()),
          values_of(gradients[2]->gradient()),
          values_of(gradients[3]->gradient()),
          values_of(gradients[4]->gradient()),
          values_of(statistics),
          values_of(mean),
          values_of(variance)};
}

void append(Values& all, const Values& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void add(Values& all, const Values& more) {
  all.resize(std::max(all.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) all[i] += more[i];
}

/// The results of all ranks: rows in rank order, and sums of parameters' gradients.
Result run_split(const Case& c, DType dtype, const std::vector<std::int64_t>& shards) {
  std::vector<Result> results(shards.size());
  run_ranks(ranks(static_cast<int>(shards.size())), [&](Rank& rank) {
    const auto me = static_cast<std::size_t>(rank.index);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < me; ++i) begin += shards[i];
    results[me] = run(rank.device, c, dtype, begin, begin + shards[me], std::make_shared<WorldStatistics>(rank.world));
  });
  Result all;
  for (const Result& result : results) {
    append(all.y, result.y);
    append(all.dx, result.dx);
    append(all.dresidual, result.dresidual);
    add(all.dgamma, result.dgamma);
    add(all.dbeta, result.dbeta);
    add(all.dslope, result.dslope);
    CHECK(result.statistics == results[0].statistics);
    CHECK(result.running_mean == results[0].running_mean);
    CHECK(result.running_variance == results[0].running_variance);
  }
  all.statistics = results[0].statistics;
  all.running_mean = results[0].running_mean;
  all.running_variance = results[0].running_variance;
  return all;
}

TEST_CASE("A synchronised batch norm over ranks is the serial one of the whole batch, forward and backward") {
  Device device = make_device();
  for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-12}, {DType::f32, 2e-6}})
    for (const Case& c : cases()) {
      const Result serial = run(device, c, dtype, 0, 7, nullptr);
      for (const std::vector<std::int64_t>& shards :
           std::vector<std::vector<std::int64_t>>{{7}, {4, 3}, {1, 0, 6}, {0, 3, 4, 0}}) {
        CAPTURE(c.name);
        CAPTURE(name_of(dtype));
        CAPTURE(shards.size());
        const Result split = run_split(c, dtype, shards);
        const auto check = [limit = tolerance](const Values& got, const Values& expected) {
          CHECK(difference(got, expected) < limit);
        };
        check(split.y, serial.y);
        check(split.dx, serial.dx);
        check(split.dresidual, serial.dresidual);
        check(split.dgamma, serial.dgamma);
        check(split.dbeta, serial.dbeta);
        check(split.dslope, serial.dslope);
        check(split.statistics, serial.statistics);
        check(split.running_mean, serial.running_mean);
        check(split.running_variance, serial.running_variance);
      }
    }
}

TEST_CASE("A synchronised batch norm is legal if no rank has rows") {
  const Result empty = run_split(cases()[2], DType::f32, {0, 0});
  CHECK(empty.y.empty());
  CHECK(empty.dx.empty());
  CHECK(empty.statistics == Values(2 * norm_channels + 1, 0));
  CHECK(empty.dgamma == Values(norm_channels, 0));
  CHECK(empty.dbeta == Values(norm_channels, 0));
  CHECK(empty.dslope == Values(norm_channels, 0));
  CHECK(empty.running_mean == Values(norm_channels, 0.5));
}

TEST_CASE(
    "One value per channel on a rank is enough if other ranks have more; one value over all ranks is refused on each") {
  const auto normalise = [](std::int64_t first, std::int64_t second) {
    return message_of([=] {
      run_ranks(ranks(2), [=](Rank& rank) {
        Tensor statistics;
        batch_norm(Tensor::zeros(rank.device, {rank.index == 0 ? first : second, 3}, DType::f32), {}, {}, 1e-5, {},
                   statistics, std::make_shared<WorldStatistics>(rank.world));
      });
    });
  };
  CHECK(normalise(1, 1) == "no error");
  CHECK(normalise(0, 2) == "no error");
  CHECK(normalise(0, 1) ==
        "batch_norm: f32[0,3] and the other ranks' rows have one value per channel; statistics need two");
}

TEST_CASE("A synchronised batch norm sends its statistics, and two sums per channel in the backward pass") {
  constexpr std::int64_t wide = 100;
  run_ranks(ranks(2), [](Rank& rank) {
    const auto gradient = std::make_shared<Accumulator>(Category::gradients);
    const Variable x = Variable::input(rows_of(rank, 4, wide), gradient);
    Tensor statistics;
    const Variable y = batch_norm(x, {}, {}, 1e-5, {}, statistics, std::make_shared<WorldStatistics>(rank.world));
    const std::int64_t forward = rank.bytes.sent_bytes();
    CHECK(forward == 4 * (2 * wide + 1));
    backward({{y, y.value()}});
    CHECK(rank.bytes.sent_bytes() - forward == 4 * 2 * wide);
  });
}

TEST_CASE("A rank that does not use its norm's output still adds to the other ranks' sums in the backward pass") {
  run_ranks(ranks(2), [](Rank& rank) {
    const auto accumulator = std::make_shared<Accumulator>(Category::gradients);
    const Tensor values = tensor(rank.device, {2, 1}, {1.0 + rank.index, 3});
    const Variable x = Variable::input(values, accumulator);
    Tensor statistics;
    const auto group = std::make_shared<WorldStatistics>(rank.world);
    const Variable y = batch_norm(x, {}, {}, 1e-3, {}, statistics, group);
    const Variable used = rank.index == 0 ? y : record(values, {y, x}, [](const Tensor& dy, Wanted) {
      return Gradients{Tensor(), dy};
    });
    backward({{used, tensor(rank.device, {2, 1}, {1, 2})}});
    CHECK(rank.bytes.received_bytes() > 0);
    CHECK(accumulator->gradient().defined());
  });
}

TEST_CASE("Moments merged once and again are those merged at once, rows of no values left out") {
  Device device = make_device();
  const NormalizationKernels& kernels = device.backend().normalization();
  const Values rows{2, 1.0, 4.0, 0.5, 8.0, 0, 99, 99, 99, 99, 3, 2.5, -1.0, 1.5, 2.0, 4, 0.0, 3.0, 2.5, 6.0};
  const Tensor groups = tensor(device, {4, 5}, rows);
  Tensor all = Tensor::empty(device, {5}, DType::f64);
  kernels.combine_moments(groups, all);
  const double mean = (2 * 1.0 + 3 * 2.5) / 9;
  const double squares = 0.5 + 1.5 + 2.5 + 2 * std::pow(1 - mean, 2) + 3 * std::pow(2.5 - mean, 2) + 4 * mean * mean;
  CHECK(all.to_doubles()[0] == 9);
  CHECK(all.to_doubles()[1] == close_to(mean).epsilon(1e-14));
  CHECK(all.to_doubles()[3] == close_to(squares).epsilon(1e-14));
  Tensor halves = Tensor::empty(device, {2, 5}, DType::f64);
  for (std::int64_t i = 0; i < 2; ++i) {
    Tensor half = halves.rows(i, i + 1).reshape({5});
    kernels.combine_moments(groups.rows(2 * i, 2 * i + 2), half);
  }
  Tensor again = Tensor::empty(device, {5}, DType::f64);
  kernels.combine_moments(halves, again);
  CHECK(difference(again.to_doubles(), all.to_doubles()) < 1e-15);
  kernels.combine_moments(groups.rows(1, 2), again);
  CHECK(again.to_doubles() == Values(5, 0));
}

}  // namespace
}  // namespace heddle::test::synchronised_norm_test
