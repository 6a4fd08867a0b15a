#include "experiments/program/bench/bench.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::array<std::string_view, 9> bench_name_list{"ops",  "collectives", "steps",  "pipeline", "head",
                                                          "data", "comparisons", "search", "gpu"};
constexpr std::array<std::vector<BenchRow> (*)(const BenchSettings&), bench_name_list.size()> benches{
    bench_ops,  bench_collectives, bench_steps,  bench_pipeline, bench_head,
    bench_data, bench_comparisons, bench_search, bench_gpu};

}  // namespace

void BenchRows::add(BenchRow row) {
  if (row.limit && !row.share) row.share = row.value / *row.limit;
  on_row_(row);
  rows_.push_back(std::move(row));
}

std::span<const std::string_view> bench_names() {
  return bench_name_list;
}

std::vector<BenchRow> run_bench(std::string_view name, const BenchSettings& settings) {
  if (!name.empty() && std::find(bench_name_list.begin(), bench_name_list.end(), name) == bench_name_list.end())
    fail<InputError>("unknown benchmark '{}': expected {}", name, fmt::join(bench_name_list, " or "));
  std::vector<BenchRow> rows;
  for (std::size_t i = 0; i < bench_name_list.size(); ++i) {
    if (name.empty() ? bench_name_list[i] == "gpu" : name != bench_name_list[i]) continue;
    const std::vector<BenchRow> more = benches[i](settings);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::string bench_table(std::span<const BenchRow> rows) {
  std::string text =
      fmt::format("{:44} {:>10} {:8} {:>10} {:>7} {:>10}\n", "", "value", "unit", "limit", "share", "peer");
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  for (const BenchRow& row : rows)
    text +=
        fmt::format("{:44} {:>10} {:8} {:>10} {:>7} {:>10}\n", row.name, number(row.value), row.unit, number(row.limit),
                    row.share ? fmt::format("{:.0f} %", *row.share * 100) : "-", number(row.peer));
  return text;
}

std::string bench_json(std::span<const BenchRow> rows) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json list = Json::array();
  for (const BenchRow& row : rows)
    list.push_back({{"name", row.name},
                    {"value", row.value},
                    {"unit", row.unit},
                    {"limit", or_null(row.limit)},
                    {"share", or_null(row.share)},
                    {"peer", or_null(row.peer)}});
  return Json{{"rows", list}}.dump(2) + "\n";
}

}  // namespace heddle
