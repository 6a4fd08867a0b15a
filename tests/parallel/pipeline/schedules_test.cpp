// The named schedules as lists, which are their pictures.
#include "parallel/pipeline/schedules.h"

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "parallel/pipeline/schedule_csv.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/message.h"

namespace heddle::test::schedules_test {

namespace {

std::string text_of(const std::vector<Action>& list) {
  std::string result;
  for (const Action& action : list) result += (result.empty() ? "" : " ") + to_string(action);
  return result;
}

}  // namespace

TEST_CASE("schedule: actions are written in PyTorch's notation, plus R and H") {
  CHECK(to_string({ActionKind::forward, 2, 0}) == "2F0");
  CHECK(to_string({ActionKind::backward, 0, 17}) == "0B17");
  CHECK(to_string({ActionKind::backward_input, 7, 0}) == "7I0");
  CHECK(to_string({ActionKind::backward_weight, 7, 0}) == "7W0");
  CHECK(to_string({ActionKind::recompute, 1, 3}) == "1R3");
  CHECK(to_string({ActionKind::loss, 3, 4}) == "3H4");
  CHECK(to_string({ActionKind::send_forward, 1, 2}) == "1SEND_F2");
  CHECK(name_of(ActionKind::recv_backward) == "RECV_B");
}

TEST_CASE("schedule: stages loop over the ranks, or go down and up again") {
  CHECK(looped_stages(3, 2) == std::vector<int>{0, 1, 2, 0, 1, 2});
  CHECK(folded_stages(3) == std::vector<int>{0, 1, 2, 2, 1, 0});
  CHECK(wave_stages(3, 3) == std::vector<int>{0, 1, 2, 2, 1, 0, 0, 1, 2});
}

TEST_CASE("schedule: naive, gpipe, 1f1b and eager_1f1b are their papers' pictures") {
  const ScheduleShape shape{3, 4};
  CHECK(text_of(naive({2, 2}).ranks[0]) == "0F0 0B0 0F1 0B1");
  CHECK(text_of(gpipe(shape).ranks[1]) == "1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3");
  const Schedule schedule = one_f_one_b(shape);
  CHECK(text_of(schedule.ranks[0]) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(text_of(schedule.ranks[1]) == "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  CHECK(text_of(schedule.ranks[2]) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
  CHECK(text_of(eager_1f1b({3, 6}).ranks[0]) == "0F0 0F1 0F2 0F3 0F4 0B0 0F5 0B1 0B2 0B3 0B4 0B5");
  CHECK(text_of(eager_1f1b({3, 6}).ranks[1]) == "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5");
  CHECK(text_of(eager_1f1b({3, 6}).ranks[2]) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2F5 2B5");
}

TEST_CASE("schedule: several stages per rank, separate weight parts, and overlapped pairs are their papers' pictures") {
  CHECK(text_of(interleaved({2, 4, 2}).ranks[0]) == "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  CHECK(text_of(looped_bfs({2, 2, 2}).ranks[1]) == "1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1");
  CHECK(text_of(zb_h1({3, 4}).ranks[2]) == "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3");
  CHECK(text_of(zb_h2({3, 5}).ranks[1]) == "1F0 1F1 1F2 1I0 1F3 1I1 1F4 1I2 1W0 1I3 1W1 1I4 1W2 1W3 1W4");
  CHECK(text_of(interleaved_zb({2, 2, 2}).ranks[1]) == "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1");
  CHECK(to_csv(zb_v({2, 3, 2})) ==
        "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,0I0,3W1,0W0,3F2,3I2,0I1,3W2,0I2,0W1,0W2\n"
        "1F0,2F0,1F1,2F1,2I0,1I0,2W0,1F2,1W0,2F2,2I1,1I1,2I2,1I2,2W1,1W1,2W2,1W2\n");
  CHECK(to_csv(dualpipe_v({2, 4, 2})) ==
        "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,"
        "0I3,0W3\n"
        "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,2W3,"
        "1W3\n");
}

TEST_CASE("schedule: hanayo's stages go down and up, backwards come first, and p micro-batches are held") {
  const Schedule schedule = hanayo({3, 4, 2});
  CHECK(schedule.rank_of == wave_stages(3, 2));
  CHECK(text_of(schedule.ranks[0]) == "0F0 0F1 0F2 0F3 5F0 5B0 5F1 5B1 5F2 5B2 0B0 0B1 0B2 5F3 5B3 0B3");
  CHECK(text_of(schedule.ranks[1]) == "1F0 1F1 1F2 4F0 1F3 4F1 4B0 4F2 4B1 1B0 4B2 1B1 1B2 4F3 4B3 1B3");
  CHECK(text_of(schedule.ranks[2]) == "2F0 3F0 2F1 3F1 2F2 3F2 3B0 2B0 3B1 2B1 3B2 2B2 2F3 3F3 3B3 2B3");
  CHECK(hanayo({2, 2, 4}).rank_of == std::vector<int>{0, 1, 1, 0, 0, 1, 1, 0});
}

TEST_CASE("schedule: chimera is its paper's picture; odd micro-batches go up, and meet the even ones") {
  const Schedule schedule = chimera({4, 8});
  CHECK(schedule.rank_of == std::vector<int>{0, 1, 2, 3});
  CHECK(schedule.second_rank_of == std::vector<int>{3, 2, 1, 0});
  CHECK(text_of(schedule.ranks[0]) == "0F0 0F2 3F1 3B1 3F3 3B3 0B0 0F4 0B2 0F6 3F5 3B5 3F7 3B7 0B4 0B6");
  CHECK(text_of(schedule.ranks[1]) == "1F0 2F1 1F2 2F3 2B1 1B0 2B3 1B2 1F4 2F5 1F6 2F7 2B5 1B4 2B7 1B6");
  CHECK(text_of(schedule.ranks[3]) == "0F1 0F3 3F0 3B0 3F2 3B2 0B1 0F5 0B3 0F7 3F4 3B4 3F6 3B6 0B5 0B7");
  CHECK(text_of(chimera({2, 2}).ranks[0]) == "0F0 1F1 1B1 0B0");
}

TEST_CASE("schedule: dualpipe is dualpipe_v on half of the ranks, whose other half is the mirror image") {
  const Schedule schedule = dualpipe({4, 8});
  CHECK(schedule.second_rank_of == std::vector<int>{3, 2, 1, 0});
  const Schedule half = dualpipe_v({2, 4, 2});
  // Stage and micro-batch of the half: down 0, 1, up 2, 3.
  const auto doubled = [](Action action, int first) {
    const bool comes_back = action.stage >= 2;
    action.micro_batch = 2 * action.micro_batch + (comes_back ? 1 - first : first);
    return action;
  };
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<Action> near;
    std::vector<Action> mirrored;
    for (const Action& action : half.ranks[static_cast<std::size_t>(rank)]) {
      near.push_back(doubled(action, 0));
      mirrored.push_back(doubled(action, 1));
    }
    CHECK(schedule.ranks[static_cast<std::size_t>(rank)] == near);
    CHECK(schedule.ranks[static_cast<std::size_t>(3 - rank)] == mirrored);
  }
}

TEST_CASE("schedule: two copies of each stage need even numbers of ranks and of micro-batches") {
  const std::string why = ": each rank has a stage of either direction, and half of the micro-batches go each way";
  for (const std::string name : {"chimera", "dualpipe"}) {
    CHECK(message_of<InputError>([&] {
            (void)make_schedule(name, {3, 12});
          }) == name + ": expected an even number of ranks, got 3" + why);
    CHECK(message_of<InputError>([&] {
            (void)make_schedule(name, {1, 4});
          }) == name + ": expected an even number of ranks, got 1" + why);
    CHECK(message_of<InputError>([&] {
            (void)make_schedule(name, {4, 9});
          }) == name + ": expected an even number of micro-batches, got 9" + why);
    CHECK(message_of<InputError>([&] { (void)make_schedule(name, {4, 8, 2}); }) == name + ": expected 1 chunk, got 2");
    CHECK(copies_of_stages(name) == 2);
  }
  CHECK(message_of<InputError>([] {
          (void)make_schedule("dualpipe", {4, 6});
        }) == "dualpipe: expected at least 8 micro-batches for 4 ranks, got 6");
  CHECK(copies_of_stages("zb_v") == 1);
}

TEST_CASE(
    "schedule: interleaved and interleaved_zb are PyTorch's, also where the ranks do not divide the micro-batches") {
  std::istringstream file(read_file(test::source_folder() / "tests/parallel/pipeline/files/torch_orders.csv", 1 << 20));
  // `# interleaved 4 10 2` (ranks, micro-batches, chunks), then one line per rank, or `refused`.
  std::string line;
  int schedules = 0;
  for (std::string name; std::getline(file, line);) {
    std::istringstream header(line);
    char hash = 0;
    ScheduleShape shape;
    REQUIRE((header >> hash >> name >> shape.ranks >> shape.micro_batches >> shape.chunks));
    CAPTURE(line);
    std::string csv;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      REQUIRE(std::getline(file, line));
      if (line == "refused") break;
      csv += line + "\n";
    }
    ++schedules;
    if (csv.empty())
      CHECK_THROWS_AS(make_schedule(name, shape), InputError);
    else
      CHECK(to_csv(make_schedule(name, shape)) == csv);
  }
  CHECK(schedules == 120);
}

TEST_CASE("schedule: interleaved_zb with one stage per rank is zb_h1 in whole rounds") {
  for (const ScheduleShape& shape : {ScheduleShape{4, 8}, ScheduleShape{3, 9}, ScheduleShape{8, 8}})
    CHECK(to_csv(interleaved_zb(shape)) == to_csv(zb_h1(shape)));
}

TEST_CASE("schedule: a shape is accepted if and only if its schedule can be made") {
  int refused = 0;
  for (const ScheduleType& type : schedule_types())
    for (int ranks = 1; ranks <= 4; ++ranks)
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches)
        for (int chunks = 1; chunks <= 4; ++chunks) {
          const ScheduleShape shape{.ranks = ranks, .micro_batches = micro_batches, .chunks = chunks};
          const auto error_of = [&](auto&& call) -> std::string {
            try {
              call();
            } catch (const InputError& error) {
              return error.what();
            }
            return {};
          };
          const std::string error = error_of([&] { check_shape(type.name, shape); });
          CHECK(error == error_of([&] { (void)make_schedule(type.name, shape); }));
          if (error.empty()) CHECK(error_of([&] { (void)type.make(shape); }).empty());
          refused += error.empty() ? 0 : 1;
        }
  CHECK(refused > 0);
}

TEST_CASE("schedule: the default number of chunks is one that the schedule takes, also of an extension's") {
  for (const ScheduleType& type : schedule_types())
    CHECK_NOTHROW(check_shape(type.name, {.ranks = 4, .micro_batches = 8, .chunks = default_chunks(type.name)}));
  const auto of = [](int min_chunks, std::optional<int> max_chunks) {
    return default_chunks({"own", "", looped_bfs, min_chunks, max_chunks});
  };
  CHECK(of(1, 1) == 1);
  CHECK(of(1, 4) == 2);
  CHECK(of(1, {}) == 2);
  CHECK(of(3, 3) == 3);
  CHECK(of(3, 5) == 3);
  CHECK(of(3, {}) == 3);
}

TEST_CASE("schedule: an impossible shape of a schedule is an error") {
  CHECK_THROWS_WITH_AS(make_schedule("gpip", {2, 2}), "unknown schedule gpip: did you mean gpipe?", InputError);
  std::vector<std::string_view> names;
  for (const ScheduleType& type : schedule_types()) names.push_back(type.name);
  CHECK_THROWS_WITH_AS(make_schedule("breadth", {2, 2}),
                       fmt::format("unknown schedule breadth: expected one of {}", fmt::join(names, ", ")).c_str(),
                       InputError);
  CHECK_THROWS_WITH_AS(make_schedule("gpipe", {4, 4, 2}), "gpipe: expected 1 chunk, got 2", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("1f1b", {0, 4}), "1f1b: expected at least 1 rank, got 0", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("naive", {4, 0}), "naive: expected at least 1 micro-batch, got 0", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("interleaved", {4, 8, 0}), "interleaved: expected at least 1 chunk, got 0",
                       InputError);
  CHECK_THROWS_WITH_AS(make_schedule("zb_v", {4, 8, 1}), "zb_v: expected 2 chunks, got 1", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("zb_h2", {4, 3}), "zb_h2: expected at least 7 micro-batches for 4 ranks, got 3",
                       InputError);
  CHECK_THROWS_WITH_AS(make_schedule("dualpipe_v", {4, 7, 2}),
                       "dualpipe_v: expected at least 8 micro-batches for 4 ranks, got 7", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("hanayo", {4, 8, 3}),
                       "hanayo: expected an even number of chunks, two for each wave, got 3", InputError);
  CHECK_THROWS_WITH_AS(make_schedule("interleaved", {4, 11, 2}),
                       "interleaved: expected a multiple of 2 micro-batches, for 2 rounds over 4 ranks, got 11",
                       InputError);
  CHECK_THROWS_WITH_AS(make_schedule("interleaved_zb", {3, 10, 2}),
                       "interleaved_zb: expected a multiple of 3 micro-batches, for 3 rounds over 3 ranks, got 10",
                       InputError);
  CHECK_THROWS_WITH_AS(
      make_schedule("looped_bfs", {40000, 2, 2}),
      "looped_bfs: 80000 stages x 2 micro-batches: expected at most 65536 x 1000000, and 33554432 in all", InputError);
  CHECK_THROWS_WITH_AS(
      make_schedule("gpipe", {1000, 1000000}),
      "gpipe: 1000 stages x 1000000 micro-batches: expected at most 65536 x 1000000, and 33554432 in all", InputError);
}

}  // namespace heddle::test::schedules_test
