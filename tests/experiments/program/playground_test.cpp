// The page of `heddle schedule --html`: its lists, and its simulation in JavaScript against the program's own.
#include "experiments/program/schedule/playground.h"

#include <fstream>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "notebooks_export/embedded_files.h"
#include "notebooks_export/process.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test::playground_test {

namespace {

using Json = nlohmann::ordered_json;

struct Setting {
  std::string_view name;
  ScheduleShape shape;
  double forward = 1;
  double input = 1;
  double weight = 1;
  double transfer = 0;
};

Json json_of(const Setting& setting) {
  return {{"name", setting.name},      {"p", setting.shape.ranks},    {"m", setting.shape.micro_batches},
          {"v", setting.shape.chunks}, {"forward", setting.forward},  {"input", setting.input},
          {"weight", setting.weight},  {"transfer", setting.transfer}};
}

Simulation simulated(const Setting& setting, const Schedule& schedule) {
  const StageCosts rank{.forward = setting.forward, .backward_input = setting.input, .backward_weight = setting.weight};
  SimulationCosts costs{.stages = costs_per_stage(rank, schedule.rank_of)};
  costs.transfer = [&](int, int) { return TransferCosts{.latency = setting.transfer}; };
  return simulate(schedule, costs);
}

/// Every schedule in random shapes, with random costs.
std::vector<Setting> random_settings(std::size_t per_schedule) {
  std::mt19937 random(1);
  const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % static_cast<unsigned>(most)); };
  const PlaygroundLimits limits;
  std::vector<Setting> settings;
  for (const ScheduleType& type : schedule_types()) {
    if (type.copies > 1) continue;  // the page does not have it
    const int max_chunks = std::min(type.max_chunks.value_or(limits.chunks), limits.chunks);
    for (std::size_t i = 0; i < per_schedule; ++i) {
      const int chunks = type.min_chunks - 1 + up_to(max_chunks - type.min_chunks + 1);
      settings.push_back(
          {type.name,
           {.ranks = up_to(limits.ranks), .micro_batches = up_to(limits.micro_batches), .chunks = chunks},
           0.25 * up_to(16),
           0.25 * (up_to(17) - 1),
           0.25 * (up_to(17) - 1),
           0.05 * (up_to(41) - 1)});
    }
  }
  return settings;
}

/// What the page's script makes of the settings.
Json results_of_script(const std::vector<Setting>& settings, const std::string& data) {
  const Scratch scratch;
  Json list = Json::array();
  for (const Setting& setting : settings) list.push_back(json_of(setting));
  write_file_atomically(scratch / "data.json", data);
  write_file_atomically(scratch / "settings.json", list.dump());
  write_file_atomically(scratch / "test.js", std::string(embedded_file("pages/simulate.js")) + R"(
const read = (name) => JSON.parse(require("fs").readFileSync(name, "utf8"));
const {schedules} = read("data.json");
console.log(JSON.stringify(read("settings.json").map((setting) => {
  const text = schedules.find(({name}) => name === setting.name).shapes[`${setting.p} ${setting.m} ${setting.v}`];
  if (text[0] === "!") return {error: text.slice(1)};
  const result = simulate(readSchedule(text, setting.m), setting);
  return {...result, ranks: undefined, peakActivations: result.ranks.map((own) => own.peakActivations),
          peakWeightInputs: result.ranks.map((own) => own.peakWeightInputs), peak: result.ranks.map((own) => own.peak),
          spans: result.ranks.map(({spans}) => spans.map(({kind, stage, microBatch, begin, end}) =>
            [`${stage}${kind}${microBatch}`, begin, end]))};
})));
)");
  const auto finished = heddle::run_program("node", {"test.js"}, scratch / ".");
  REQUIRE(finished);
  REQUIRE_MESSAGE(finished->exit_code == 0, finished->output);
  return Json::parse(finished->output);
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

bool near(const Json& values, const std::vector<double>& expected) {
  return std::equal(values.begin(), values.end(), expected.begin(), expected.end(),
                    [](const Json& a, double b) { return near(a.get<double>(), b); });
}

/// The first difference between the timelines; empty if there is none.
std::string difference(const Json& spans, const Timeline& timeline) {
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const std::vector<TimedAction>& actions = timeline.ranks[rank];
    if (spans.at(rank).size() != actions.size()) return fmt::format("rank {}: the number of actions", rank);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Json& span = spans[rank][i];
      const TimedAction& timed = actions[i];
      if (span[0] != to_string(timed.action) || !near(span[1].get<double>(), timed.begin) ||
          !near(span[2].get<double>(), timed.end))
        return fmt::format("rank {}, action {}: {}, expected {} {} {}", rank, i, span.dump(), to_string(timed.action),
                           timed.begin, timed.end);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("a schedule is written as the lists of its ranks, and what repeats only once") {
  CHECK(schedule_text(make_schedule("1f1b", {.ranks = 4, .micro_batches = 8})) ==
        "0123|F4(BF)4B4|FF(FB)6BB|F(FB)7B|(FB)8");
  CHECK(schedule_text(make_schedule("gpipe", {.ranks = 1, .micro_batches = 1})) == "0|FB");
  CHECK(schedule_text(make_schedule("interleaved", {.ranks = 2, .micro_batches = 2, .chunks = 2})) ==
        "0101|FFffbbBB|FF(fb)2BB");
  Schedule overlapped = empty_schedule(1, {0});
  overlapped.ranks[0] = {{.kind = ActionKind::forward, .overlaps_next = true}, {.kind = ActionKind::backward}};
  CHECK(schedule_text(overlapped) == "0|&FB");
}

TEST_CASE("a schedule that the page cannot show is an error, not another schedule") {
  Schedule schedule = empty_schedule(2, {0});
  schedule.ranks[0] = {{.kind = ActionKind::forward, .micro_batch = 1}};
  CHECK(message_of<InputError>([&] { schedule_text(schedule); }) ==
        "playground: 0F1 is not in the order of the micro-batches");
  schedule.ranks[0] = {{.kind = ActionKind::backward_weight}};
  CHECK(message_of<InputError>([&] { schedule_text(schedule); }) ==
        "playground: 0W0 is not in the order of the micro-batches");
  schedule.ranks[0] = {{.kind = ActionKind::recompute}};
  CHECK(message_of<InputError>([&] { schedule_text(schedule); }) ==
        "playground: there is no letter for 0R0 in chunk 0");
  CHECK(message_of<InputError>([&] { schedule_text(make_schedule("gpipe", {.ranks = 11, .micro_batches = 1})); }) ==
        "playground: expected at most 10 ranks, got 11");
}

TEST_CASE("schedules that need more chunks than the page has are left out") {
  const auto names_of = [](const PlaygroundLimits& limits) {
    std::vector<std::string> names;
    const Json data = Json::parse(playground_data(limits));
    for (const Json& schedule : data.at("schedules")) names.push_back(schedule["name"]);
    return names;
  };
  std::vector<std::string> all;
  std::vector<std::string> of_one_chunk;
  for (const ScheduleType& type : schedule_types()) {
    if (type.copies > 1) continue;
    all.emplace_back(type.name);
    if (type.min_chunks <= 1) of_one_chunk.emplace_back(type.name);
  }
  CHECK(of_one_chunk.size() < all.size());
  CHECK(names_of({.ranks = 2, .micro_batches = 2, .chunks = 1}) == of_one_chunk);
  CHECK(names_of({.ranks = 2, .micro_batches = 2, .chunks = 4}) == all);
}

TEST_CASE("the page's simulation gives the actions, times, bubbles and peaks of the program's for all schedules" *
          doctest::test_suite(test::long_under_sanitizers)) {
  if (!heddle::run_program("node", {"--version"}, ".")) {
    MESSAGE("not run: there is no node, which runs the page's script");
    return;
  }
  const std::vector<Setting> settings = random_settings(40);
  const Json results = results_of_script(settings, playground_data({}));
  REQUIRE(results.size() == settings.size());
  int simulations = 0;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Setting& setting = settings[i];
    const Json& result = results[i];
    INFO(json_of(setting).dump());
    if (result.contains("error")) {
      CHECK(message_of<InputError>([&] { make_schedule(setting.name, setting.shape); }) == result["error"]);
      continue;
    }
    ++simulations;
    const Simulation expected = simulated(setting, make_schedule(setting.name, setting.shape));
    CHECK(difference(result["spans"], expected.timeline) == "");
    CHECK(near(result["makespan"].get<double>(), expected.step_time));
    CHECK(near(result["spanBubble"].get<double>(), expected.timeline.span_bubble()));
    CHECK(near(result["idle"].get<double>(), expected.timeline.idle_fraction()));
    CHECK(near(result["peakActivations"], expected.peak_activations));
    CHECK(near(result["peakWeightInputs"], expected.peak_weight_inputs));
    CHECK(near(result["peak"], expected.peak_memory));
  }
  CHECK(simulations > 400);
}

TEST_CASE("the page of all schedules is one file below 2 MB that loads nothing") {
  const Scratch scratch;
  const std::string file = (scratch / "page.html").string();
  const test::Called called = test::call({"schedule", "--html", file});
  CHECK(called.code == 0);
  CHECK(called.err.empty());
  CHECK(called.out == file + "\n");
  const std::string page = read_file(file, 2'000'000);
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  for (const char* const loaded : {"http:", "https:", " src=", "@import", "url("})
    CHECK_MESSAGE(page.find(loaded) == std::string::npos, loaded);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("\"4 8 1\":\"0123|F4(BF)4B4|FF(FB)6BB|F(FB)7B|(FB)8\"") != std::string::npos);
}

TEST_CASE("a wrong call of the page is refused, and writes nothing") {
  const Scratch scratch;
  const std::string file = (scratch / "page.html").string();
  for (const char* const other :
       {"1f1b", "--search", "--stages=4", "--costs=1,2,1,0", "--json", "--recompute=always"}) {
    const test::Called called = test::call({"schedule", "--html", file, other});
    CHECK(called.code == 2);
    CHECK(called.err ==
          "heddle: schedule: expected --html FILE without other options: everything is chosen on the page\n");
  }
  CHECK(scratch.files() == 0);
}

TEST_CASE("the page of all schedules in a folder that does not exist is an error that names the file" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const Scratch scratch;
  const std::string nowhere = (scratch / "no/page.html").string();
  const test::Called called = test::call({"schedule", "--html", nowhere});
  CHECK(called.code == 2);
  CHECK(called.err.find(nowhere) != std::string::npos);
}

}  // namespace heddle::test::playground_test
