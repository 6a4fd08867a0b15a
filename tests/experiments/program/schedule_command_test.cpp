// `heddle schedule`: pictures, figures and files as a user sees them.
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/program/command_line.h"
#include "experiments/program/schedule/picture.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test::schedule_command_test {

namespace {

using Json = nlohmann::json;

using test::Called;

Timeline timeline_of(const Schedule& schedule, const StageCosts& costs = {}) {
  return simulate(schedule, {.stages = costs_per_stage(costs, schedule.rank_of)}).timeline;
}

}  // namespace

TEST_CASE(
    "the picture outside a terminal: one row per rank, letters and micro-batches, a legend, and the figures below") {
  CHECK(printed_by("schedule gpipe --stages 3 --micro-batches 4") ==
        "gpipe: 3 ranks, 4 micro-batches\n"
        "\n"
        "rank\n"
        "   0  F0 F1 F2 F3 .  .  .  .  .  .  B0--- B1--- B2--- B3---\n"
        "   1  .  F0 F1 F2 F3 .  .  .  B0--- B1--- B2--- B3--- .  .\n"
        "   2  .  .  F0 F1 F2 F3 B0--- B1--- B2--- B3--- .  .  .  .\n"
        "time  0     2     4     6     8     10    12    14    16\n"
        "F forward, B backward, . idle\n"
        "F0: the forward of micro-batch 0\n"
        "\n"
        "makespan            18          from the first action to the end of the last\n"
        "span bubble         33.33 %     idle time between a rank's first and last action, as papers report it\n"
        "idle                33.33 %     share of all ranks' time within the makespan\n"
        "peak activations    4 on every rank\n"
        "peak weight inputs  0 on every rank\n"
        "(rank by rank, in units of a micro-batch on a whole rank; weight inputs: kept from I to W)\n");
}

TEST_CASE("on a terminal, colours show the kinds of action, and numbers the micro-batches") {
  const std::string text = printed_by("schedule gpipe --stages 2 --micro-batches 1", {true, true, 80});
  CHECK(text.find("   0  \x1b[38;5;16;48;5;75m0 \x1b[0m. . . \x1b[38;5;16;48;5;114m0   \x1b[0m\n") !=
        std::string::npos);
  CHECK(text.find("\x1b[38;5;16;48;5;75m   \x1b[0m forward, ") != std::string::npos);
  const std::string plain = printed_by("schedule gpipe --stages 2 --micro-batches 1", {true, false, 80});
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(plain.find("   0  F0 .  .  .  B0---\n") != std::string::npos);
}

TEST_CASE("a picture too wide for names has one character per unit of time, then several units per character") {
  const std::string units = printed_by("schedule 1f1b --stages 4 --micro-batches 8", {true, false, 60});
  CHECK(units.find("   1  .FFF....BBFBBFBBFBBFBBFBB.BB.BB..\n") != std::string::npos);
  CHECK(units.find("each character is a time of 1\n") != std::string::npos);
  const std::string scaled = printed_by("schedule gpipe --stages 4 --micro-batches 8", {true, false, 30});
  CHECK(scaled.find("   0  FFFFFF.....BBBBBBBBBBB\n") != std::string::npos);
  CHECK(scaled.find(
            "each character is a time of 1.5: the action that takes most of its busy part, . if all of it is idle\n") !=
        std::string::npos);
  std::istringstream lines(printed_by("schedule gpipe --stages 300 --micro-batches 2000"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) CHECK(line.size() <= 120);
  CHECK(count < 50);
}

TEST_CASE("the terminal's picture leaves out the middle ranks if there are many, and says so") {
  const std::string text = printed_by("schedule gpipe --stages 40 --micro-batches 2");
  CHECK(text.find("\n  15  ") != std::string::npos);
  CHECK(text.find("\n      (8 ranks are not drawn)\n  24  ") != std::string::npos);
  CHECK(text.find("\n  16  ") == std::string::npos);
}

TEST_CASE("costs with a common measure are drawn by it, costs without one by the share of their time") {
  const std::string even = printed_by("schedule gpipe --stages 2 --micro-batches 1 --costs 20,20,20,0");
  CHECK(even.find("   0  F0 .  .  .  B0---\n") != std::string::npos);
  CHECK(even.find("time  0     40    80\n") != std::string::npos);
  CHECK(even.find("makespan            120 ") != std::string::npos);
  const std::string odd = printed_by("schedule gpipe --stages 2 --micro-batches 1 --costs 1,0.70710678,2,0.1");
  CHECK(odd.find(": the action that takes most of its busy part, ") != std::string::npos);
}

TEST_CASE("a character of several units of time shows an action although idle time takes more of it") {
  Timeline timeline;
  timeline.ranks.emplace_back();
  for (int i = 0; i < 200; ++i) {  // after 12 units without action
    const double begin = 12.0 + 3 * i;
    timeline.ranks[0].push_back({{i < 100 ? ActionKind::forward : ActionKind::backward, 0, i % 100}, begin, begin + 1});
  }
  const std::string text = picture_text(timeline, empty_schedule(100, {0}), {});
  CHECK(text.find("   0  .." + std::string(50, 'F') + std::string(50, 'B') + "\n") != std::string::npos);
  CHECK(text.find("each character is a time of 6: ") != std::string::npos);
}

TEST_CASE("actions that overlap share their place") {
  Timeline timeline;
  timeline.ranks = {{{{ActionKind::forward, 0, 0}, 0, 1},
                     {{ActionKind::forward, 0, 1, true}, 1, 3},
                     {{ActionKind::backward, 0, 0}, 1, 3}}};
  const Schedule schedule = empty_schedule(2, {0});
  CHECK(picture_text(timeline, schedule, {}).find("   0  F0 F1&B0-\n") == std::string::npos);
  CHECK(picture_text(timeline, schedule, {}).find("   0  F0 F1&B0 \n") == std::string::npos);
  CHECK(picture_text(timeline, schedule, {}).find("   0  F0 F1&B0\n") != std::string::npos);
}

TEST_CASE("with several stages per rank, an action is named with its stage, or by small letters in every second one") {
  Timeline timeline;
  timeline.ranks = {{{{ActionKind::forward, 0, 0}, 0, 1}, {{ActionKind::backward_input, 2, 0}, 1, 2}},
                    {{{ActionKind::forward, 1, 0}, 1, 2}}};
  const Schedule schedule = empty_schedule(1, {0, 1, 0});
  CHECK(picture_text(timeline, schedule, {}).find("   0  0F0 2I0\n   1  .   1F0\n") != std::string::npos);
  timeline.ranks[1].push_back({{ActionKind::backward, 1, 0}, 2, 80});
  CHECK(picture_text(timeline, schedule, {}).find("   0  Fi...") != std::string::npos);
}

TEST_CASE(
    "with two copies of each stage, the second copy's actions are those of another stage, and parameters are twice") {
  const std::string picture = printed_by("schedule chimera --stages 4 --micro-batches 4");
  CHECK(picture.starts_with("chimera: 4 ranks, 4 micro-batches, 2 copies of 4 stages\n"));
  CHECK(picture.find("   3  0F1 0F3 .   3F0 3B0---- 3F2 3B2---- .   0B1---- .   .   0B3----\n") != std::string::npos);
  CHECK(picture.find("peak activations    3 4 4 3\n") != std::string::npos);
  CHECK(picture.find("parameters          twice those of one copy, on every rank\n") != std::string::npos);
  CHECK(printed_by("schedule 1f1b --stages 4 --micro-batches 4").find("parameters") == std::string::npos);
  const std::string dense = printed_by("schedule chimera --stages 4 --micro-batches 32");
  CHECK(dense.find("   0  FF.fbbfbb.BBF.BB") != std::string::npos);
  CHECK(dense.find("   3  ff.FBBFBB.bbf.bb") != std::string::npos);
  const Json json = Json::parse(printed_by("schedule dualpipe --stages 4 --micro-batches 8 --json"));
  CHECK(json["copies"] == 2);
  CHECK(json["ranks"] == 4);
  CHECK(json["stages"] == 4);
  CHECK(json["chunks"] == 1);
  CHECK(json["peak_activations"] == Json::array({5, 5, 5, 5}));
  CHECK(printed_by("schedule chimera --stages 2 --micro-batches 2 --csv") == "0F0,1F1,1B1,0B0\n0F1,1F0,1B0,0B1\n");
  CHECK(printed_by("schedule chimera --stages 4 --micro-batches 4 --critical-path").find("critical path: ") !=
        std::string::npos);
  CHECK(printed_by("schedule --search --stages 2 --micro-batches 4").find("chimera") == std::string::npos);
}

TEST_CASE("the SVG is one file with a title on every action") {
  const Scratch folder;
  const std::string file = (folder / "picture.svg").string();
  const Called called = call_words("schedule 1f1b --stages 2 --micro-batches 3 --svg " + file);
  CHECK(called.code == 0);
  CHECK(called.err == "picture: " + file + "\n");
  std::ostringstream read;
  read << std::ifstream(file).rdbuf();
  const std::string svg = read.str();
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("<title>1f1b: 2 ranks, 3 micro-batches</title>") != std::string::npos);
  CHECK(svg.find("<title>1B2: backward of micro-batch 2 in stage 1, 8 to 10</title>") != std::string::npos);
  CHECK(svg.find("Cut: ") == std::string::npos);
  std::size_t titles = 0;
  for (std::size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) ++titles;
  CHECK(titles == 1 + 2 * 2 * 3);
}

TEST_CASE("the SVG of a very large schedule is cut, and says so") {
  const Schedule schedule = gpipe({.ranks = 300, .micro_batches = 200});
  const std::string svg = picture_svg(timeline_of(schedule), schedule, "a < b");
  CHECK(svg.find("<title>a &lt; b</title>") != std::string::npos);
  CHECK(svg.find(">Cut: 256 of 300 ranks, the time up to ") != std::string::npos);
  CHECK(svg.size() < 20'000'000);
}

TEST_CASE("--json has the figures under stable keys") {
  const Json json = Json::parse(printed_by("schedule 1f1b --stages 4 --micro-batches 8 --json"));
  CHECK(json["name"] == "1f1b");
  CHECK(json["ranks"] == 4);
  CHECK(json["stages"] == 4);
  CHECK(json["chunks"] == 1);
  CHECK(json["micro_batches"] == 8);
  CHECK(json["makespan"] == 33);
  CHECK(json["span_bubble"].get<double>() == close_to(3.0 / 11));
  CHECK(json["idle_fraction"].get<double>() == close_to(3.0 / 11));
  CHECK(json["peak_activations"] == std::vector<double>{4, 3, 2, 1});
  CHECK(json["peak_weight_inputs"] == std::vector<double>{0, 0, 0, 0});
  const Json of_two_chunks = Json::parse(printed_by("schedule zb_v --stages 4 --micro-batches 8 --json"));
  CHECK(of_two_chunks["ranks"] == 4);
  CHECK(of_two_chunks["stages"] == 8);
  CHECK(of_two_chunks["chunks"] == 2);
}

TEST_CASE("costs are forward, input part, weight part and a transfer's") {
  const auto makespan = [](const std::string& costs) {
    return Json::parse(printed_by("schedule gpipe --stages 2 --micro-batches 1 --json --costs " + costs))["makespan"]
        .get<double>();
  };
  CHECK(makespan("5,10,20,100") == 270);
  CHECK(makespan("0.5,1e1,0,0") == 21);
}

TEST_CASE("actions that take no time, and the shortest and longest that a picture can show, are drawn") {
  CHECK(printed_by("schedule gpipe --stages 1 --micro-batches 2 --costs 0,0,0,1").find("rank\n   0\n") !=
        std::string::npos);
  const Scratch folder;
  const std::string file = (folder / "picture.svg").string();
  for (const std::string costs : {"0,0,0,1", "1e-18,1e-18,1e-18,0", "1e18,1e18,1e18,1e18", "1e-18,1e18,0,1"})
    CHECK(call_words("schedule gpipe --stages 1 --micro-batches 2 --svg " + file + " --costs " + costs).code == 0);
}

TEST_CASE("recomputation takes a forward's time, and keeps one micro-batch's activations") {
  const Json json = Json::parse(printed_by("schedule gpipe --stages 1 --micro-batches 4 --recompute always --json"));
  CHECK(json["makespan"] == 16);
  CHECK(json["peak_activations"] == std::vector<double>{1});
  CHECK(Json::parse(printed_by(
            "schedule gpipe --stages 1 --micro-batches 4 --recompute except_last --json"))["makespan"] == 15);
}

TEST_CASE("a schedule's CSV reads back as the same schedule") {
  const Scratch folder;
  const std::string file = (folder / "schedule.csv").string();
  const std::string csv = printed_by("schedule 1f1b --stages 3 --micro-batches 5 --csv");
  CHECK(csv.starts_with("0F0,0F1,0F2,0B0,"));
  std::ofstream(file) << csv;
  CHECK(printed_by("schedule --file " + file + " --csv") == csv);
  Json named = Json::parse(printed_by("schedule 1f1b --stages 3 --micro-batches 5 --json"));
  const Json read = Json::parse(printed_by("schedule --file " + file + " --json"));
  CHECK(read["name"] == file);
  named["name"] = file;
  CHECK(read == named);
}

TEST_CASE("a file whose ranks have unequal numbers of stages is reported with its number of stages") {
  const Scratch folder;
  const std::string file = (folder / "uneven.csv").string();
  std::ofstream(file) << "0F0,,,2F0,2B0,,,0B0\n,1F0,,,,,1B0\n";
  CHECK(printed_by("schedule --file " + file).starts_with(file + ": 2 ranks, 1 micro-batch, 3 stages\n"));
  const Json json = Json::parse(printed_by("schedule --file " + file + " --json"));
  CHECK(json["ranks"] == 2);
  CHECK(json["stages"] == 3);
  CHECK(json["chunks"].is_null());
}

TEST_CASE("a file with a wrong cell is refused with the grid around it") {
  const Scratch folder;
  const std::string file = (folder / "wrong.csv").string();
  std::ofstream(file) << "0F0,0F1,0B0,0B1\n1F0,1B0,1B1,1F1\n";
  const std::string error = refused_by("schedule --file " + file);
  CHECK(error.starts_with("heddle: " + file + ": rank 1, cell 3: 1B1: before its input 1F1\n"));
  CHECK(error.find(">1B1<") != std::string::npos);
}

TEST_CASE("wrong calls print the expected value and exit with 2") {
  CHECK(
      refused_by("schedule") ==
      "heddle: schedule: expected one of: the name of a schedule (heddle list schedules), --file, --search, --html\n");
  CHECK(refused_by("schedule 1f1b --micro-batches 4") == "heddle: schedule: expected --stages, the number of ranks\n");
  CHECK(refused_by("schedule 1f1b --stages 4") ==
        "heddle: schedule: expected --micro-batches, the number of micro-batches\n");
  CHECK(refused_by("schedule gpip") == "heddle: unknown schedule gpip: did you mean gpipe?\n");
  CHECK(refused_by("schedule csv --stages 4 --micro-batches 4") ==
        "heddle: schedule: expected --file FILE.csv, the file to read, in place of the name csv\n");
  CHECK(refused_by("schedule gpip --stages 4 --micro-batches 4") ==
        "heddle: unknown schedule gpip: did you mean gpipe?\n");
  CHECK(refused_by("schedule gpipe --stages 0 --micro-batches 4") ==
        "heddle: --stages: expected an integer from 1 to 65536, got 0\n");
  CHECK(refused_by("schedule gpipe --stages 4 --micro-batches 0") ==
        "heddle: --micro-batches: expected an integer from 1 to 1000000, got 0\n");
  CHECK(refused_by("schedule gpipe --stages 4 --micro-batches 4 --chunks 2") ==
        "heddle: gpipe: expected 1 chunk, got 2\n");
  CHECK(refused_by("schedule zb_h2 --stages 4 --micro-batches 4") ==
        "heddle: zb_h2: expected at least 7 micro-batches for 4 ranks, got 4\n");
  CHECK(refused_by("schedule interleaved --stages 4 --micro-batches 11 --chunks 2") ==
        "heddle: interleaved: expected a multiple of 2 micro-batches, for 2 rounds over 4 ranks, got 11\n");
  CHECK(refused_by("schedule gpipe --stages 4 --micro-batches 4 --chunks 0") ==
        "heddle: --chunks: expected an integer from 1 to 1024, got 0\n");
  CHECK(refused_by("schedule gpipe --stages 65536 --micro-batches 1000000") ==
        "heddle: schedule: expected at most 33554432 micro-batches in all stages together, got 65536 x 1 x 1000000\n");
  for (const std::string costs : {"1,1,1,-1", "-1,1,1,1", "1,1,1", "1,1,1,1,1", "a,b,c,d", "1,1,1,", "nan,1,1,1",
                                  "inf,1,1,1", "0,0,0,0", "1e-320,1,1,1", "1e19,1,1,1"})
    CHECK(refused_by("schedule gpipe --stages 4 --micro-batches 4 --costs " + costs) ==
          "heddle: --costs: expected F,I,W,c, four numbers, 0 or from 1e-18 to 1e18 and not all 0, got \"" + costs +
              "\"\n");
  CHECK(refused_by("schedule gpipe --stages 4 --micro-batches 4 --csv --json") ==
        "heddle: schedule: expected --csv or --json, got both\n");
  CHECK(
      refused_by("schedule --file a.csv --stages 4") ==
      "heddle: schedule: expected --file without --stages, --micro-batches and --chunks, which the file determines\n");
  CHECK(refused_by("schedule --file no/such.csv") ==
        "heddle: no/such.csv: cannot be read: No such file or directory\n");
  CHECK(refused_by("schedule gpipe --stages 4 --micro-batches 4 --recompute sometimes").find("sometimes") !=
        std::string::npos);
}

TEST_CASE("--search prints a named schedule as the best where no searched one is better") {
  const std::string text = printed_by("schedule --search --stages 2 --micro-batches 4 --memory 2");
  CHECK(
      text.starts_with("schedule             m  v  makespan  gap (%)  bubble (%)  peak memory\n"
                       "interleaved_zb       4  4     12.25     0.00        2.04            2\n"));
  CHECK(text.find("\nand 47 more; of all 59, 14 fit\n") != std::string::npos);
  CHECK(text.find("\nLower bound: 12.25. No schedule that fits has a smaller makespan") != std::string::npos);
  CHECK(text.find("\nThe best is interleaved_zb (m = 4, v = 4); the best searched schedule, searched, warm-up 4 "
                  "(m = 4, v = 4), takes as long.\n") != std::string::npos);
  CHECK(text.find("\ninterleaved_zb: 2 ranks, 4 micro-batches, 4 stages per rank\n\nrank\n   0  FF") !=
        std::string::npos);
}

TEST_CASE("--search prints the compared schedules, the gain of the searched one, and the best one's picture" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const std::string text = printed_by("schedule --search --stages 8 --micro-batches 32 --memory 6");
  CHECK(
      text.starts_with("schedule                 m  v  makespan  gap (%)  bubble (%)  peak memory\n"
                       "searched, waves, block  32  4     99.75     0.00        3.52            6\n"));
  CHECK(text.find("\nv_half                  32  2       106     6.27        9.43            5\n") !=
        std::string::npos);
  CHECK(text.find("\ninterleaved_zb          32  4     97.75        -        1.79            8\n") !=
        std::string::npos);
  CHECK(text.find(" more; of all 90, 7 fit\n") != std::string::npos);
  CHECK(text.find(
            "\nLower bound: 99.75. No schedule that fits has a smaller makespan with these placements of stages and "
            "numbers of micro-batches.\n") != std::string::npos);
  CHECK(text.find(
            "\nsearched, waves, block (m = 32, v = 4) takes 5.90 % less time than the best named schedule that fits, "
            "v_half (m = 32, v = 2).\n") != std::string::npos);
  CHECK(text.find("\nTried: 88 named schedules; in 2 placements of stages, 288 schedules by list scheduling, ") !=
        std::string::npos);
  CHECK(text.find("interrupted") == std::string::npos);
  CHECK(text.find("\nsearched, waves, block: 8 ranks, 32 micro-batches, 4 stages per rank\n\nrank\n   0  FF") !=
        std::string::npos);
}

TEST_CASE("--search --json has the best one's figures, and those of all") {
  const Json json = Json::parse(printed_by("schedule --search --stages 4 --micro-batches 8 --memory 3 --json"));
  const Json& weighed = json["weighed"];
  REQUIRE(weighed.size() > 20);
  CHECK(json["name"] == weighed[0]["name"]);
  for (const char* key : {"ranks", "stages", "chunks", "micro_batches", "makespan"}) {
    CAPTURE(key);
    CHECK(json[key] == weighed[0][key]);
  }
  CHECK(json["ranks"] == 4);
  CHECK(weighed[0]["fits"] == true);
  CHECK(weighed[weighed.size() - 1]["fits"] == false);
  CHECK(weighed[weighed.size() - 1]["gap"].is_null());
  CHECK(json["interrupted"] == false);
  CHECK(json["tried"]["named"].get<std::size_t>() + json["tried"]["placements"].get<std::size_t>() == weighed.size());
  const double bound = json["bound"].get<double>();
  CHECK(weighed[0]["gap"].get<double>() == close_to(weighed[0]["makespan"].get<double>() / bound - 1));
}

TEST_CASE("--search --csv gives a schedule that is as good when it is read again" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const Scratch folder;
  const std::string file = (folder / "best.csv").string();
  const std::string search = "schedule --search --stages 4 --micro-batches 8 --memory 3 --costs 3,4,2,1";
  std::ofstream(file) << printed_by(search + " --csv");
  const Json best = Json::parse(printed_by(search + " --json"));
  const Json read = Json::parse(printed_by("schedule --file " + file + " --costs 3,4,2,1 --json"));
  REQUIRE(best["micro_batches"] == 8);
  CHECK(read["makespan"].get<double>() == close_to(best["makespan"].get<double>()));
  CHECK(read["peak_activations"] == best["peak_activations"]);
}

TEST_CASE("wrong searches print the expected value and exit with 2") {
  CHECK(refused_by("schedule --search --stages 4 --micro-batches 8 --memory 0.5") ==
        "heddle: --memory: no schedule fits into 0.5: the smallest peak memory is 1, of naive (m = 8, v = 1)\n");
  CHECK(refused_by("schedule --search --stages 4 --micro-batches 8 --memory 0") ==
        "heddle: --memory: expected a number > 0, got 0\n");
  CHECK(
      refused_by("schedule --search 1f1b --stages 4 --micro-batches 8") ==
      "heddle: schedule: expected one of: the name of a schedule (heddle list schedules), --file, --search, --html\n");
  CHECK(refused_by("schedule 1f1b --stages 4 --micro-batches 8 --memory 4") ==
        "heddle: schedule: --memory and --max-micro-batches are for --search\n");
  CHECK(refused_by("schedule --search --stages 4 --micro-batches 8 --recompute always") ==
        "heddle: schedule: --search does not take --recompute\n");
  CHECK(refused_by("schedule --search --stages 1024 --micro-batches 1024") ==
        "heddle: search: expected at most 262144 cells to try in all, got 10485760 of 1024 ranks, up to 1024 "
        "micro-batches and up to 4 chunks\n");
}

TEST_CASE("schedules are listed with their descriptions") {
  const std::string list = printed_by("list schedules");
  CHECK(list.starts_with("schedules (pipeline.schedule)\n"));
  for (const ScheduleType& type : schedule_types())
    CHECK(list.find(fmt::format("  {:<22}{}\n", type.name, type.description)) != std::string::npos);
  CHECK(printed_by("list learning_rates").find("cosine") != std::string::npos);
}

}  // namespace heddle::test::schedule_command_test
