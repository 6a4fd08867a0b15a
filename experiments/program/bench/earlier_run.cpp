// What `heddle bench --json` printed earlier, beside the rows of this run.
#include <map>

#include <fmt/format.h>

#include "experiments/config/document.h"
#include "experiments/config/json_text.h"
#include "experiments/program/bench/bench.h"
#include "framework/error.h"

namespace heddle {

namespace {

std::optional<double> number_in(const Value* value) {
  if (!value) return std::nullopt;
  if (const auto* integer = value->get_if<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* real = value->get_if<Real>()) return real->value;
  return std::nullopt;
}

std::optional<BenchRow> row_in(const Value& value) {
  const auto* object = value.get_if<Object>();
  if (!object) return std::nullopt;
  const auto* name = find(*object, "name");
  const auto* unit = find(*object, "unit");
  const std::optional<double> number = number_in(find(*object, "value"));
  if (!name || !name->is<std::string>() || !unit || !unit->is<std::string>() || !number) return std::nullopt;
  return BenchRow{.name = *name->get_if<std::string>(), .value = *number, .unit = *unit->get_if<std::string>()};
}

/// Calls `visit(row, key)`. An indented row belongs to the one before it that is not, whose name is a part of its key.
template <class Rows, class Visit>
void for_each_key(Rows& rows, const Visit& visit) {
  std::string parent;
  for (auto& row : rows) {
    const bool is_indented = row.name.starts_with(' ');
    if (!is_indented) parent = row.name;
    visit(row, fmt::format("{}{} {}", is_indented ? parent : "", row.name, row.unit));
  }
}

}  // namespace

std::vector<BenchRow> read_bench_json(const std::filesystem::path& file) {
  const ParsedJson parsed = parse_json(read_config_text(file), file.string());
  const auto refuse = [&](const std::string& why) {
    fail<InputError>("{}: expected what `heddle bench --json` prints: {}", file.string(), why);
  };
  const auto* root = parsed.root.get_if<Object>();
  const Value* list = root ? find(*root, "rows") : nullptr;
  if (!list || !list->is<Array>()) refuse("an object whose \"rows\" are a list");
  std::vector<BenchRow> rows;
  for (const Value& value : *list->get_if<Array>()) {
    const std::optional<BenchRow> row = row_in(value);
    if (!row) refuse(fmt::format("\"name\", \"value\" and \"unit\" in /rows/{}", rows.size()));
    rows.push_back(*row);
  }
  return rows;
}

void compare_with(std::vector<BenchRow>& rows, std::span<const BenchRow> earlier) {
  std::map<std::string, double> values;
  for_each_key(earlier, [&](const BenchRow& row, const std::string& key) { values.emplace(key, row.value); });
  for_each_key(rows, [&](BenchRow& row, const std::string& key) {
    if (const auto found = values.find(key); found != values.end()) row.earlier = found->second;
  });
}

}  // namespace heddle
