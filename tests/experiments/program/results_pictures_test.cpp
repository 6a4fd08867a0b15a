// Pictures of the schedules of a results folder, as `heddle notebook` draws them.
#include "experiments/program/schedule/results_pictures.h"

#include <doctest/doctest.h>

#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "tests/support/files/deep_json.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::results_pictures_test {

namespace fs = std::filesystem;

TEST_CASE("each schedule of a study is drawn once, with the names of its variants and with their recomputation") {
  const Scratch scratch;
  const fs::path results = scratch / ".";
  write_file_atomically(scratch / "summary.json", R"({"name": "x", "variants": [
      {"name": "serial", "stages": 1}, {"name": "a", "stages": 2, "recompute": "never"},
      {"name": "b", "stages": 2, "recompute": "never"}, {"name": "c", "stages": 2, "recompute": "always"},
      {"name": "killed", "stages": 2}]})");
  for (const char* const name : {"serial", "a", "b", "c"}) {
    const fs::path folder = results / "variants" / name;
    fs::create_directories(folder);
    write_file_atomically(folder / "schedule.csv", "0F0,,,0B0\n,1F0,1B0,\n");
  }
  fs::create_directories(results / "figures");
  for (const char* const old : {"schedule-1.svg", "schedule-2.svg", "schedule-3.svg", "loss.svg"})
    write_file_atomically(results / "figures" / old, "old");
  draw_schedules_of(results);
  const auto picture = [&](const char* name) { return read_file(results / "figures" / name, 1 << 20); };
  CHECK(picture("schedule-1.svg").find("<title>a, b: 2 ranks, 1 micro-batch</title>") != std::string::npos);
  CHECK(picture("schedule-1.svg").find("recomputed forward") == std::string::npos);
  CHECK(picture("schedule-2.svg").find("<title>c: 2 ranks, 1 micro-batch</title>") != std::string::npos);
  CHECK(picture("schedule-2.svg").find("recomputed forward") != std::string::npos);
  CHECK_FALSE(fs::exists(results / "figures" / "schedule-3.svg"));
  CHECK(picture("loss.svg") == "old");
}

TEST_CASE("the schedule of a run with one variant lies in its folder; without pipelines nothing is drawn") {
  const Scratch scratch;
  draw_schedules_of(scratch / ".");
  write_file_atomically(scratch / "summary.json", R"({"name": "x", "variants": [{"name": "a", "stages": 1}]})");
  write_file_atomically(scratch / "schedule.csv", "0F0,0B0\n0F0,0B0\n");  // not read
  draw_schedules_of(scratch / ".");
  CHECK_FALSE(fs::exists(scratch / "figures"));
  write_file_atomically(scratch / "summary.json", R"({"name": "x", "variants": [{"name": "a", "stages": 2}]})");
  write_file_atomically(scratch / "schedule.csv", "0F0,,,0B0\n,1F0,1B0,\n");
  draw_schedules_of(scratch / ".");
  CHECK(fs::exists(scratch / "figures/schedule-1.svg"));
}

TEST_CASE("a damaged schedule of a results folder is named, and a damaged summary is left to the notebook") {
  const Scratch scratch;
  write_file_atomically(scratch / "summary.json", R"({"name": "x", "variants": [{"name": "a", "stages": 2}]})");
  write_file_atomically(scratch / "schedule.csv", "0F0,what\n");
  CHECK(message_of<InputError>([&] {
          draw_schedules_of(scratch / ".");
        }).starts_with((scratch / "./schedule.csv").string() + ":1: cell 2: "));
  write_file_atomically(scratch / "schedule.csv", "0F0,0B0\n1B0,1F0\n");
  const std::string order = message_of<InputError>([&] { draw_schedules_of(scratch / "."); });
  CHECK(order.starts_with((scratch / "./schedule.csv").string() + ": rank "));
  CHECK(order.find('\n') == std::string::npos);
  const std::string deep = R"({"variants": [{"stages": )" + deep_json() + "}]}";
  for (const std::string_view text :
       {"", "[]", "{}", R"({"variants": 3})", R"({"variants": [3, null, {"stages": "x"}]})", deep.c_str()}) {
    write_file_atomically(scratch / "summary.json", text);
    draw_schedules_of(scratch / ".");
  }
  CHECK_FALSE(fs::exists(scratch / "figures"));
}

}  // namespace heddle::test::results_pictures_test
