// `heddle schedule --critical-path`: the marks, the table and the JSON as a user sees them.
#include <iterator>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/program/schedule/critical_path_report.h"
#include "framework/files/atomic_file.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test::critical_path_command_test {

namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("the critical path is marked in the picture, and a table says what each cost would have to be") {
  const std::string text = printed_by("schedule zb_h1 --stages 4 --micro-batches 6 --critical-path");
  CHECK(text.starts_with(
      "zb_h1: 4 ranks, 6 micro-batches\n"
      "\n"
      "rank\n"
      "   0  F0*F1 F2 F3 .  .  .  I0*W0*F4*I1*W1*F5*I2*W2*I3*W3*I4*W4*I5*W5*\n"
      "   1  .  F0*F1 F2 .  .  I0*F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5\n"
      "   2  .  .  F0*F1 .  I0*F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5\n"
      "   3  .  .  .  F0*I0*F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5\n"
      "time  0     2     4     6     8     10    12    14    16    18    20\n"
      "F forward, I input part of backward, W weight part of backward, . idle, * on the critical path\n"));
  CHECK(text.find("\ncritical path: 21 actions and 6 messages, marked *\n"
                  "\n"
                  "cost  now  on the path  share (%)  gain per unit  down to  makespan then\n"
                  "F       1            6      28.57              6        0             15\n"
                  "I       1            9      42.86              6        0             15\n"
                  "W       1            6      28.57              3        0             18\n"
                  "(on the path: ") != std::string::npos);
}

TEST_CASE("without --critical-path nothing is marked") {
  for (const std::string arguments : {"", " --json"})
    CHECK(printed_by("schedule zb_h1 --stages 4 --micro-batches 6" + arguments).find("critical") == std::string::npos);
}

TEST_CASE("a picture too dense for names has its marks in lines below the ranks, and the table has R and c") {
  const std::string text =
      printed_by("schedule 1f1b --stages 4 --micro-batches 8 --costs 1,1,1,2 --recompute always --critical-path");
  CHECK(text.find("\n   0  FFFFR..................BBFRBBFR...BBFR...BBFR...BBR.BBR....BBR....BB\n"
                  "      *                      ***                                        **\n") != std::string::npos);
  CHECK(text.find(", . idle, * below: on the critical path\n") != std::string::npos);
  CHECK(text.find("\nR       1            3       4.41              3        0             65\n"
                  "c       2           32      47.06             16      0.5             44\n") != std::string::npos);
}

TEST_CASE("a cost that another critical path does without has no gain, and no value that it would have to be") {
  CriticalPathReport report{.path = {.steps = {{}}, .time = {6, 0, 0, 0, 2}}, .effects = {}, .costs = {3, 1, 1, 1, 2}};
  report.effects = {{.kind = CostKind::transfer, .time_on_path = 2, .makespan_until = 8, .makespan_at_zero = 8}};
  CHECK(critical_path_table(report).starts_with(
      "critical path: 1 action and 0 messages, marked *\n"
      "\n"
      "cost  now  on the path  share (%)  gain per unit  down to  makespan then\n"
      "c       2            2      25.00              0        -              -\n"));
}

TEST_CASE("on a terminal with colours, the marks are within the coloured actions") {
  CHECK(printed_by("schedule gpipe --stages 2 --micro-batches 1 --critical-path", {true, true, 80})
            .find("   0  \x1b[38;5;16;48;5;75m0*\x1b[0m. . . \x1b[38;5;16;48;5;114m0  *\x1b[0m\n") !=
        std::string::npos);
}

TEST_CASE("--json has the path's actions and messages with their times, and the effects of the costs") {
  const Json path = Json::parse(
      printed_by("schedule interleaved --stages 2 --micro-batches 2 --chunks 2 --costs 4,2,2,1 --critical-path --json"))
      ["critical_path"];
  double time = 0;
  int messages = 0;
  int rank = -1;
  for (const Json& step : path["steps"]) {
    CHECK(step["begin"] == time);
    time = step["end"].get<double>();
    if (step.contains("message")) {
      ++messages;
      CHECK(step["from"] == rank);
      CHECK(step["end"].get<double>() - step["begin"].get<double>() == 1);
    }
    rank = step.contains("message") ? step["to"].get<int>() : step["rank"].get<int>();
  }
  CHECK(path["steps"][0]["action"] == "0F0");
  CHECK(path["steps"][1]["message"] == "0SEND_F0");
  CHECK(messages == 6);
  CHECK(time == 26);
  double sum = 0;
  std::string names;
  for (const Json& cost : path["costs"]) {
    names += cost["cost"].get<std::string>();
    sum += cost["share"].get<double>();
  }
  CHECK(names == "FIWc");
  CHECK(sum == close_to(1));
  const Json& transfer = path["costs"][3];
  CHECK(transfer["now"] == 1);
  CHECK(transfer["on_path"] == 6);
  CHECK(transfer["gain_per_unit"] == 6);
  CHECK(transfer["down_to"] == 0);
  CHECK(transfer["makespan_at_zero"] == 20);
}

TEST_CASE("the SVG frames the actions of the critical path and draws its messages") {
  const Scratch folder;
  const auto drawn = [&](const std::string& options) {
    const std::string file = (folder / "picture.svg").string();
    CHECK(call_words("schedule 1f1b --stages 2 --micro-batches 2 --svg " + file + options).code == 0);
    return read_file(file, 1 << 20);
  };
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string svg = drawn(" --critical-path");
  CHECK(count(svg, "<line ") == 2);
  CHECK(count(svg, ", on the critical path</title>") == 6);
  CHECK(count(svg, ">on the critical path</text>") == 1);
  CHECK(drawn("").find("critical") == std::string::npos);
}

TEST_CASE("a search marks the critical path of the best schedule, with the costs of its micro-batches") {
  const Json best = Json::parse(printed_by(
      "schedule --search --stages 2 --micro-batches 4 --memory 2 --chunks 1 --costs 2,2,2,0 --critical-path --json"));
  REQUIRE(best["micro_batches"] == 4);
  CHECK(best["critical_path"]["costs"][0]["now"] == 2);
  CHECK(best["critical_path"]["steps"].back()["end"] == best["makespan"]);
}

TEST_CASE("--critical-path is refused where there is no place for it") {
  const Called csv = call_words("schedule 1f1b --stages 2 --micro-batches 2 --csv --critical-path");
  CHECK(csv.code == 2);
  CHECK(csv.err == "heddle: schedule: expected --critical-path without --csv, which has no place for it\n");
  const Called offload = call_words("schedule gpipe --stages 2 --micro-batches 4 --offload all --critical-path");
  CHECK(offload.code == 2);
  CHECK(offload.err == "heddle: schedule: --critical-path does not take --offload\n");
  const Called html = call_words("schedule --html page.html --critical-path");
  CHECK(html.code == 2);
  CHECK(html.err == "heddle: schedule: expected --html FILE without other options: everything is chosen on the page\n");
}

}  // namespace heddle::test::critical_path_command_test
