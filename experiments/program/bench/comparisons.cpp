// Comparisons of templates for verification, as the IJB benchmarks list them: ten million pairs of as many templates as
// IJB-C has, where few of the products of two blocks of rows are wanted, and all pairs of fewer templates, where all
// are. The limit is the rate of matrix products in f64, measured before each case.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/machine.h"
#include "experiments/training/evaluation/protocol/compare.h"
#include "framework/scalars/random.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

constexpr std::int64_t comparisons = 10'000'000;
constexpr std::int64_t ijb_templates = 23'124;
constexpr std::int64_t few_templates = 3'163;  // ten million pairs, of each with each

UnitRows drawn_rows(std::int64_t rows, std::int64_t features) {
  std::vector<float> values(static_cast<std::size_t>(rows * features));
  RandomStream draws({1}, Purpose::evaluation_pairs, 0, static_cast<std::uint64_t>(features));
  for (float& value : values) value = static_cast<float>(draws.normal());
  return {values, static_cast<std::size_t>(rows)};
}

std::vector<Pair> drawn_pairs(std::int64_t rows) {
  RandomStream draws({2}, Purpose::evaluation_pairs, 0, 0);
  const auto draw = [&] { return static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(rows))); };
  std::vector<Pair> pairs(comparisons);
  for (Pair& pair : pairs) pair = {draw(), draw(), false};
  return pairs;
}

std::vector<Pair> all_pairs(std::int64_t rows) {
  std::vector<Pair> pairs;
  pairs.reserve(comparisons);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < rows && pairs.size() < comparisons; ++j) pairs.push_back({i, j, false});
  return pairs;
}

struct Compared {
  double seconds = 0;
  std::vector<ComparedPair> pairs;
};
Compared compared_in(ComparisonWay way, const UnitRows& rows, const std::vector<Pair>& pairs) {
  const auto begin = std::chrono::steady_clock::now();
  Compared result{.pairs = compare(rows, pairs, way)};
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

void add_case(const std::string& name, const UnitRows& unit, const std::vector<Pair>& pairs, Device& device,
              BenchRows& rows) {
  const double limit = product_rate(device, DType::f64);
  const Compared compared = compared_in(ComparisonWay::automatic, unit, pairs);
  rows.add({.name = name, .value = compared.seconds, .unit = "s"});
  const double flops = 2.0 * static_cast<double>(pairs.size() * unit.dimension());
  rows.add({.name = "  its dot products",
            .value = flops / compared.seconds / giga,
            .unit = "GFLOP/s",
            .limit = limit / giga});
  const Compared alone = compared_in(ComparisonWay::one_by_one, unit, pairs);
  rows.add({.name = "  one by one in the order of the list", .value = alone.seconds, .unit = "s"});
  double differing = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    differing += alone.pairs[i].distance == compared.pairs[i].distance ? 0 : 1;
  rows.add({.name = "  distances that differ", .value = differing, .unit = ""});
}

}  // namespace

std::vector<BenchRow> bench_comparisons(const BenchSettings& settings) {
  BenchRows rows(settings);
  // In a thread of its own, whose team ends with it.
  std::jthread([&] {
    Device device(make_backend("cpu", {.threads = settings.threads}));
    device.backend().enter_thread();
    omp_set_num_threads(settings.threads);
    for (const std::int64_t features : {256, 512}) {
      add_case(fmt::format("10M pairs of {} templates, {} features", ijb_templates, features),
               drawn_rows(ijb_templates, features), drawn_pairs(ijb_templates), device, rows);
      add_case(fmt::format("all pairs of {} templates, {} features", few_templates, features),
               drawn_rows(few_templates, features), all_pairs(few_templates), device, rows);
    }
  }).join();
  return rows.take();
}

}  // namespace heddle
