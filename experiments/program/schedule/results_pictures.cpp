#include "experiments/program/schedule/results_pictures.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "experiments/program/schedule/picture.h"
#include "experiments/program/schedule/report.h"
#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "framework/files/untrusted_json.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedule_csv.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_pictures = 12;

/// A schedule, and the names of its variants.
struct Shared {
  Schedule schedule;
  std::string names;
};

std::string member_text(const nlohmann::json& variant, const char* key) {
  const auto value = variant.find(key);
  return value != variant.end() && value->is_string() ? value->get<std::string>() : "";
}

Recompute recompute_of(const nlohmann::json& variant) {
  const std::string name = member_text(variant, "recompute");
  for (const Recompute mode : {Recompute::always, Recompute::except_last})
    if (name == name_of(mode)) return mode;
  return Recompute::never;
}

/// InputError in one line: what is wrong with a schedule comes with a picture of it.
Schedule read_schedule(const fs::path& file) {
  try {
    return from_csv(read_file(file, max_csv_bytes), file.string());
  } catch (const InputError& error) {
    const std::string_view text = error.what();
    fail<InputError>("{}", text.substr(0, text.find('\n')));
  }
}

std::vector<Shared> schedules_of(const fs::path& results, const nlohmann::json& variants) {
  std::vector<Shared> found;
  for (const nlohmann::json& variant : variants) {
    if (!variant.is_object() || !(variant.value("stages", nlohmann::json()) > 1)) continue;
    const std::string name = member_text(variant, "name");
    fs::path file = results / "variants" / folder_name(name) / "schedule.csv";
    if (variants.size() == 1) file = results / "schedule.csv";
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;  // of a run that was killed before
    Schedule schedule = with_recompute(read_schedule(file), recompute_of(variant));
    const auto same = std::find_if(found.begin(), found.end(), [&](const Shared& s) { return s.schedule == schedule; });
    if (same != found.end()) {
      same->names += fmt::format(", {}", name);
    } else if (found.size() < max_pictures) {
      found.push_back({std::move(schedule), name});
    }
  }
  return found;
}

}  // namespace

void draw_schedules_of(const fs::path& results) {
  std::error_code ignored;
  const fs::path summary_file = results / "summary.json";
  if (!fs::exists(summary_file, ignored)) return;
  const auto summary = parse_untrusted_json<nlohmann::json>(read_file(summary_file, max_summary_bytes));
  if (!summary.is_object() || !summary.contains("variants")) return;
  const fs::path folder = results / "figures";
  const auto file = [&](std::size_t number) { return folder / fmt::format("schedule-{}.svg", number); };
  for (std::size_t number = 1; fs::remove(file(number), ignored); ++number) {
  }
  const std::vector<Shared> schedules = schedules_of(results, summary["variants"]);
  if (!schedules.empty()) fs::create_directories(folder, ignored);  // writing fails with the reason
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const Schedule& schedule = schedules[i].schedule;
    const ScheduleReport report{schedules[i].names, schedule,
                                simulate(schedule, {.stages = costs_per_stage({}, schedule.rank_of)})};
    write_file_atomically(file(i + 1), picture_svg(report.simulation.timeline, schedule, schedule_title(report)));
  }
}

}  // namespace heddle
