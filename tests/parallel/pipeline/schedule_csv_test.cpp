// Schedules as PyTorch's pipelining writes and reads them.
#include "parallel/pipeline/schedule_csv.h"

#include <string>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"

namespace heddle::test::schedule_csv_test {

using enum ActionKind;
using namespace std::string_literals;

TEST_CASE("schedule csv: one row per rank, without recomputation, loss and messages") {
  const Schedule schedule = one_f_one_b({2, 2});
  const std::string text = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  CHECK(to_csv(schedule) == text);
  CHECK(to_csv(with_communication(with_loss(with_recompute(schedule, Recompute::always), LossForm::on_all))) == text);
  CHECK(from_csv(text, "f") == schedule);
}

TEST_CASE("schedule csv: idle slots, both kinds of line ends, messages and sharding are skipped") {
  const Schedule schedule = one_f_one_b({2, 2});
  CHECK(from_csv("0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1\r\n", "f") == schedule);
  CHECK(from_csv("0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0, 0B1 ,0REDUCE_GRAD,0RESHARD\n1F0,1B0,1F1,1B1", "f") ==
        schedule);
}

TEST_CASE("schedule csv: an overlapped pair is one cell") {
  const std::string text = "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n";
  const Schedule schedule = from_csv(text, "f");
  CHECK(schedule.ranks[0] ==
        std::vector<Action>{{forward, 0, 0}, {forward, 0, 1, true}, {backward, 0, 0}, {backward, 0, 1}});
  CHECK(to_csv(schedule) == text);
}

TEST_CASE("schedule csv: O and L are cells of their own") {
  const std::string text = "0F0,0O0,0F1,0L0,0F2,0B0,0B1,0B2\n";
  const Schedule schedule = from_csv(text, "f");
  CHECK(schedule.ranks[0][1] == Action{ActionKind::offload, 0, 0});
  CHECK(schedule.ranks[0][3] == Action{ActionKind::load, 0, 0});
  CHECK(to_csv(schedule) == text);
  CHECK_THROWS_WITH_AS(from_csv("0F0,0L0,0B0\n", "f.csv"),
                       "f.csv: rank 0, cell 2: 0L0: before its input 0O0\nrank 0    0F0     >0L0<     0B0\n",
                       InputError);
  CHECK_THROWS_WITH_AS(from_csv("0F0,0O0\n", "f.csv"),
                       "f.csv: rank 0, cell 3: 0B0: is missing\nrank 0    0F0      0O0     ><\n", InputError);
}

TEST_CASE("schedule csv: a stage's rank is the row that contains it") {
  const Schedule schedule = from_csv("0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2B0,1B0\n", "f");
  CHECK(schedule.rank_of == folded_stages(2));
  CHECK(schedule.micro_batches == 1);
}

TEST_CASE("schedule csv: two copies of a stage are in the rows of the even and of the odd micro-batches") {
  for (const char* const name : {"chimera", "dualpipe"}) {
    const Schedule schedule = make_schedule(name, {4, 8});
    CHECK(from_csv(to_csv(schedule), "f") == schedule);
  }
  CHECK_THROWS_WITH_AS(
      from_csv("0F0,0B0\n0F1,0B1\n1F0,1B0\n1F1,1B1\n", "f.csv"),
      "f.csv: rank 0, cell 1: the second copy of stage 0 is on rank 1, expected rank 3, the mirror image "
      "of rank 0\n"
      "rank 0   >0F0<     0B0\nrank 1    0F1      0B1\nrank 2    1F0      1B0\n"
      "rank 3    1F1      1B1\n",
      InputError);
}

TEST_CASE("schedule csv: errors name the row and the cell") {
  const auto read = [](std::string_view text) { return from_csv(text, "f.csv"); };
  CHECK_THROWS_WITH_AS(read(""), "f.csv: expected one row per rank, the file is empty", InputError);
  CHECK_THROWS_WITH_AS(read("\r\n\n"), "f.csv: expected one row per rank, the file is empty", InputError);
  CHECK_THROWS_WITH_AS(read("0F0,0B0\n,,\n"), "f.csv:2: a rank that computes nothing", InputError);
  CHECK_THROWS_WITH_AS(read("0F0,0G0"), "f.csv:1: cell 2: expected an action such as `2F0`, got `0G0`", InputError);
  CHECK_THROWS_WITH_AS(read("0F0,0B0\n1F0,1BB"), "f.csv:2: cell 2: expected an action such as `2F0`, got `1BB`",
                       InputError);
  CHECK_THROWS_WITH_AS(read("0F0,F0"), "f.csv:1: cell 2: expected an action such as `2F0`, got `F0`", InputError);
  CHECK_THROWS_WITH_AS(read("0F0x"), "f.csv:1: cell 1: expected an action such as `2F0`, got `0F0x`", InputError);
  CHECK_THROWS_WITH_AS(read("0R0"), "f.csv:1: cell 1: expected an action such as `2F0`, got `0R0`", InputError);
  CHECK_THROWS_WITH_AS(read("-1F0"), "f.csv:1: cell 1: expected an action such as `2F0`, got `-1F0`", InputError);
  CHECK_THROWS_WITH_AS(read("0SEND_F"), "f.csv:1: cell 1: expected an action such as `2F0`, got `0SEND_F`", InputError);
  CHECK_THROWS_WITH_AS(read("0F0,99999F0"), "f.csv:1: cell 2: stage `99999` is past 65535", InputError);
  CHECK_THROWS_WITH_AS(read("0F99999999999999999999"),
                       "f.csv:1: cell 1: micro-batch `99999999999999999999` is past 999999", InputError);
  CHECK_THROWS_WITH_AS(read("0F0,0B0\n0F2,0B2"), "f.csv:2: cell 1: stage 0 is in row 1 too", InputError);
  CHECK_THROWS_WITH_AS(read("0F0,0B0\n2F0,2B0"), "f.csv: no row has stage 1", InputError);
  CHECK_THROWS_WITH_AS(read("65535F999999"),
                       "f.csv: 65536 stages and 1000000 micro-batches, but 1 actions that compute", InputError);
  CHECK_THROWS_WITH_AS(read("(0F1;0B0)"), "f.csv:1: cell 1: expected `(0F7;7B3)OVERLAP_F_B`, got `(0F1;0B0)`",
                       InputError);
  CHECK_THROWS_WITH_AS(read("(0F1)OVERLAP_F_B"),
                       "f.csv:1: cell 1: expected two actions that overlap, got `(0F1)OVERLAP_F_B`", InputError);
  CHECK_THROWS_WITH_AS(read("0F0,0B0\n1F0,1F0"),
                       "f.csv: rank 1, cell 2: 1F0: appears twice\n"
                       "rank 0    0F0      0B0\n"
                       "rank 1    1F0     >1F0<\n",
                       InputError);
}

}  // namespace heddle::test::schedule_csv_test
