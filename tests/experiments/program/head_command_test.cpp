// `heddle schedule --head`.
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test::head_command_test {

TEST_CASE("--head adds a head over all ranks, at once or in parts") {
  const auto rows_of = [](const std::string& head) {
    const std::string text = printed_by("schedule 1f1b_plus_1 --stages 2 --micro-batches 3 --head " + head);
    const std::size_t begin = text.find("rank\n") + 5;
    return text.substr(begin, text.find("\ntime") + 1 - begin);
  };
  CHECK(rows_of("at_once") ==
        "   0  F0 F1 H0 F2 .  .  H1 B0--- .  H2 B1--- B2---\n"
        "   1  .  F0 H0 F1 B0--- H1 F2 B1--- H2 B2--- .  .\n");
  CHECK(rows_of("two_exchanges") ==
        "   0  F0 F1 S0 F2 S1 .  .  B0--- S2 B1--- .  .  B2---\n"
        "   1  .  F0 S0 F1 S1 B0--- F2 B1--- S2 .  B2--- .  .\n");
  CHECK(rows_of("one_exchange") ==
        "   0  F0 F1 S0 F2 S1 .  .  B0--- S2 B1--- .  B2---\n"
        "   1  .  F0 S0 F1 S1 B0--- F2 B1--- S2 B2--- .  .\n");
  CHECK(printed_by("schedule 1f1b_plus_1 --stages 2 --micro-batches 3 --head one_exchange --head-cost 0")
            .find("makespan            12 ") != std::string::npos);
  CHECK(
      printed_by("schedule 1f1b_plus_1 --stages 2 --micro-batches 3 --head one_exchange").find("S sums of the head") !=
      std::string::npos);
}

TEST_CASE("--head: each exchange takes as long as a transfer") {
  const auto makespan = [](const std::string& head, const std::string& c) {
    const std::string text =
        printed_by("schedule 1f1b --stages 1 --micro-batches 1 --costs 1,1,1," + c + " --head " + head);
    return std::stod(text.substr(text.find("makespan") + 8));
  };
  CHECK(makespan("at_once", "0") == 4);
  CHECK(makespan("at_once", "2") == 10);
  CHECK(makespan("two_exchanges", "2") == 10);
  CHECK(makespan("one_exchange", "2") == 8);
}

TEST_CASE("--head: what cannot be combined with it, and wrong values") {
  const std::string shape = "schedule 1f1b --stages 2 --micro-batches 4 ";
  CHECK(refused_by(shape + "--head sometimes") ==
        "heddle: --head: sometimes not in {at_once,two_exchanges,one_exchange}\n");
  CHECK(refused_by(shape + "--head-cost 1") == "heddle: --head-cost: expected --head, whose time it is\n");
  for (const std::string cost : {"-1", "1e+19", "1e-20", "inf"})
    CHECK(refused_by(shape + "--head at_once --head-cost " + cost) ==
          "heddle: --head-cost: expected 0 or a number from 1e-18 to 1e18, got " + cost + "\n");
  CHECK(refused_by(shape + "--head at_once --critical-path") ==
        "heddle: schedule: --critical-path does not take --head\n");
  CHECK(refused_by("schedule --search --stages 2 --micro-batches 4 --head at_once") ==
        "heddle: schedule: --search does not take --head\n");
  CHECK(refused_by("schedule --html page.html --head at_once") ==
        "heddle: schedule: expected --html FILE without other options: everything is chosen on the page\n");
  const Scratch folder;
  const std::string file = (folder / "forward.csv").string();
  std::ofstream(file) << "0F0,0F1\n1F0,1F1\n";
  CHECK(refused_by("schedule --file " + file + " --head at_once") ==
        "heddle: --head: the schedule has no backward, and so no loss\n");
}

}  // namespace heddle::test::head_command_test
