// `heddle schedule --offload`.
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test::offload_command_test {

namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("--offload adds O and L, a row for the link of each rank, and the peak in the host's memory") {
  CHECK(printed_by("schedule gpipe --stages 1 --micro-batches 3 --offload all --offload-cost 1") ==
        "gpipe: 1 rank, 3 micro-batches\n"
        "\n"
        "rank\n"
        "   0  F0 F1 F2 .  B0--- B1--- B2---\n"
        "link  .  O0 O1 L0 O2 L1 L2 .  .  .\n"
        "time  0     2     4     6     8\n"
        "F forward, B backward, O offload to the host, L load from the host, . idle\n"
        "F0: the forward of micro-batch 0\n"
        "\n"
        "makespan            10          from the first action to the end of the last\n"
        "span bubble         10.00 %     idle time between a rank's first and last action, as papers report it\n"
        "idle                10.00 %     share of all ranks' time within the makespan\n"
        "peak activations    2\n"
        "peak weight inputs  0\n"
        "peak offloaded      2\n"
        "(rank by rank, in units of a micro-batch on a whole rank; weight inputs: kept from I to W)\n");
  const Json json = Json::parse(printed_by("schedule 1f1b --stages 4 --micro-batches 8 --offload all --json"));
  CHECK(json["peak_activations"] == std::vector<double>{2, 2, 2, 1});
  CHECK(json["peak_offloaded"] == std::vector<double>{3, 2, 0, 0});
  CHECK(printed_by("schedule 1f1b --stages 4 --micro-batches 8 --offload all --csv").starts_with("0F0,0O0,0F1,0O1,"));
  const Scratch folder;
  const std::string file = (folder / "offloaded.svg").string();
  CHECK(call_words("schedule 1f1b --stages 4 --micro-batches 8 --offload all --offload-cost 1 --svg " + file).code ==
        0);
  std::ostringstream svg;
  svg << std::ifstream(file).rdbuf();
  CHECK(svg.str().find("<title>0O0: offload to the host of micro-batch 0 in stage 0, 1 to 2</title>") !=
        std::string::npos);
  CHECK(svg.str().find(">link</text>") != std::string::npos);
}

TEST_CASE("--offload that has no effect says why, and prints the schedule") {
  const Called all = call_words("schedule 1f1b --stages 2 --micro-batches 4 --offload all --csv");
  CHECK(all.code == 0);
  CHECK(all.out == "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  CHECK(all.err == "--offload all: nothing is offloaded: every micro-batch is needed too soon\n");
  CHECK(call_words("schedule 1f1b --stages 2 --micro-batches 4 --offload half").err ==
        "--offload half: nothing is offloaded: every micro-batch that it chooses is needed too soon\n");
}

TEST_CASE("wrong offloading is refused") {
  const std::string gpipe = "schedule gpipe --stages 2 --micro-batches 4 ";
  CHECK(refused_by(gpipe + "--offload-cost 1") ==
        "heddle: --offload-cost: the schedule offloads nothing (--offload half or all adds O and L)\n");
  CHECK(refused_by("schedule 1f1b --stages 2 --micro-batches 8 --offload all --offload-cost 1") ==
        "heddle: --offload-cost: the schedule offloads nothing: every micro-batch is needed too soon\n");
  for (const std::string cost : {"-1", "nan", "inf", "1e+19"})
    CHECK(refused_by(gpipe + "--offload all --offload-cost " + cost) ==
          "heddle: --offload-cost: expected 0 or a number from 1e-18 to 1e18, got " + cost + "\n");
  CHECK(refused_by(gpipe + "--offload all --recompute always") ==
        "heddle: offload: expected a schedule without recomputation, which keeps no activations\n");
  CHECK(refused_by(gpipe + "--offload some").starts_with("heddle: --offload: some not in {half,all}"));
  CHECK(refused_by("schedule --search --stages 2 --micro-batches 4 --offload all") ==
        "heddle: schedule: --search does not take --offload and --offload-cost\n");
  CHECK(refused_by("schedule --html page.html --offload all") ==
        "heddle: schedule: expected --html FILE without other options: everything is chosen on the page\n");
  const Scratch folder;
  const std::string file = (folder / "forward.csv").string();
  std::ofstream(file) << "0F0,0F1\n";
  CHECK(refused_by("schedule --file " + file + " --offload half") ==
        "heddle: offload: expected a schedule with backward: one of forward passes keeps no activations\n");
}

}  // namespace heddle::test::offload_command_test
