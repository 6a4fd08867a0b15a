#include "experiments/program/bench/bench.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/program/bench/peer.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::array<std::string_view, 9> bench_name_list{"ops",  "collectives", "steps",  "pipeline", "head",
                                                          "data", "comparisons", "search", "gpu"};
constexpr std::array<std::vector<BenchRow> (*)(const BenchSettings&), bench_name_list.size()> benches{
    bench_ops,  bench_collectives, bench_steps,  bench_pipeline, bench_head,
    bench_data, bench_comparisons, bench_search, bench_gpu};

std::optional<double> ratio_of(const BenchRow& row) {
  if (!row.earlier || *row.earlier == 0) return std::nullopt;
  return row.value / *row.earlier;
}

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

std::optional<double> peer_seconds(const BenchSettings& settings, const std::vector<std::string>& work) {
  return settings.peer ? settings.peer->seconds(work, settings.on_progress) : std::nullopt;
}

std::string bench_table(std::span<const BenchRow> rows) {
  const bool compared = std::any_of(rows.begin(), rows.end(), [](const BenchRow& row) { return row.earlier; });
  const auto line = [compared](const auto& name, const auto& value, const auto& unit, const auto& limit,
                               const auto& share, const auto& peer, const auto& earlier, const auto& ratio) {
    const std::string text =
        fmt::format("{:44} {:>10} {:8} {:>10} {:>7} {:>10}", name, value, unit, limit, share, peer);
    return compared ? fmt::format("{} {:>10} {:>7}\n", text, earlier, ratio) : text + "\n";
  };
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  std::string text = line("", "value", "unit", "limit", "share", "peer", "earlier", "ratio");
  for (const BenchRow& row : rows) {
    const std::optional<double> ratio = ratio_of(row);
    text += line(row.name, number(row.value), row.unit, number(row.limit),
                 row.share ? fmt::format("{:.0f} %", *row.share * 100) : "-", number(row.peer), number(row.earlier),
                 ratio ? fmt::format("{:.2f}", *ratio) : "-");
  }
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
                    {"peer", or_null(row.peer)},
                    {"earlier", or_null(row.earlier)},
                    {"ratio", or_null(ratio_of(row))}});
  return Json{{"rows", list}}.dump(2) + "\n";
}

}  // namespace heddle
