#include <nlohmann/json.hpp>

#include "experiments/program/plan/layout_report.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson peak_json(const MemoryUse& peak) {
  OrderedJson json;
  json["total"] = peak.total();
  for (std::size_t i = 0; i < category_count; ++i)
    json[std::string(name_of(static_cast<Category>(i)))] = peak.bytes.at(i);
  return json;
}

OrderedJson layout_json(const LayoutCandidate& candidate) {
  const Layout& layout = candidate.layout;
  const auto value = [&](LayoutOption option) { return value_of(layout, option); };
  OrderedJson json;
  json["mesh"] = {{"dp", layout.mesh.dp}, {"pp", layout.mesh.pp}, {"tp", layout.mesh.tp}};
  json["schedule"] = layout.mesh.pp > 1 ? OrderedJson(layout.schedule) : OrderedJson();
  json["chunks"] = layout.chunks;
  json["micro_batches"] = layout.micro_batches;
  json["recompute"] = value(LayoutOption::recompute);
  json["offload"] = value(LayoutOption::offload);
  json["shard"] = value(LayoutOption::shard);
  json["placements"] = value(LayoutOption::placements);
  json["stages"] = value(LayoutOption::cut);
  json["head"] = {{"over", value(LayoutOption::over)},
                  {"logits", value(LayoutOption::logits)},
                  {"work", value(LayoutOption::head_work)}};
  json["step_seconds"] = candidate.figures.seconds;
  json["peak_bytes"] = candidate.figures.bytes;
  json["fullest_rank"] = candidate.is_planned() ? OrderedJson(candidate.figures.rank) : OrderedJson();
  json["peak"] = candidate.figures.peak ? peak_json(*candidate.figures.peak) : OrderedJson();
  json["estimated"] = !candidate.is_planned();
  json["fits"] = candidate.fits;
  return json;
}

OrderedJson layouts_array(const std::vector<LayoutCandidate>& layouts) {
  OrderedJson json = OrderedJson::array();
  for (const LayoutCandidate& each : layouts) json.push_back(layout_json(each));
  return json;
}

OrderedJson report_json(const LayoutReport& report) {
  const LayoutSearchResult& result = report.result;
  OrderedJson json;
  json["name"] = report.name;
  json["ranks"] = report.ranks;
  json["budget"] = report.budget > 0 ? OrderedJson(report.budget) : OrderedJson();
  json["rank_budgets"] = report.rank_budgets.empty() ? OrderedJson() : OrderedJson(report.rank_budgets);
  json["error"] = report.error.empty() ? OrderedJson() : OrderedJson(report.error);
  json["written"] = result.written ? layout_json(*result.written) : OrderedJson();
  json["best"] = layouts_array(result.best);
  json["equal_layouts_are_left_out"] = result.has_equal_layouts;
  json["changes"] = OrderedJson::array();
  for (const LayoutChange& change : result.changes) {
    OrderedJson row = layout_json(change.changed);
    row["option"] = std::string(name_of(change.option));
    json["changes"].push_back(std::move(row));
  }
  json["front"] = layouts_array(result.front);
  json["bound_seconds"] = result.bound;
  json["gap"] =
      result.best.empty() ? OrderedJson() : OrderedJson(result.best.front().figures.seconds / result.bound - 1);
  json["considered"] = result.considered;
  json["estimated"] = result.estimated;
  json["planned"] = result.planned;
  json["exhausted"] = result.is_exhausted;
  json["interrupted"] = result.is_interrupted;
  return json;
}

}  // namespace

std::string layouts_json(const std::string& name, std::span<const LayoutReport> reports, const std::string& file) {
  OrderedJson json;
  json["name"] = name;
  json["searches"] = OrderedJson::array();
  for (const LayoutReport& report : reports) json["searches"].push_back(report_json(report));
  json["file"] = file;
  return json.dump(2) + "\n";
}

}  // namespace heddle
