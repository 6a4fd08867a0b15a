// The content of a results folder during a run, after it, and after the next one.
#include "experiments/results/results_folder.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "experiments/results/summary.h"
#include "framework/description/text.h"
#include "tests/support/devices.h"
#include "tests/support/files/file_size_limit.h"
#include "tests/support/message.h"
#include "tests/support/results/sample_results.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

std::vector<OrderedJson> metrics_of(const fs::path& folder) {
  std::vector<OrderedJson> lines;
  for (const std::string& line : lines_of(read_file(folder / "metrics.jsonl", mebi)))
    lines.push_back(OrderedJson::parse(line));
  return lines;
}

TEST_CASE("a results folder holds a step's metrics as soon as the step is over") {
  const Scratch scratch;
  ResultsFolder folder(scratch / "a/b", "{}\n", false);
  folder.begin_variant("serial", 0, 64);
  StepRecord record = step_record(0, 1.0 / 3, 0.5);
  folder.step(record);
  record.step = 1;
  record.gradient_norm = 2.5;
  record.loader_wait = 0.125;
  record.loss_scale = 32768;
  record.is_skipped = true;
  record.loss.reset();
  record.seconds = 0;
  folder.step(record);
  const auto lines = metrics_of(folder.path());
  REQUIRE(lines.size() == 2);
  std::vector<std::string> keys;
  for (const auto& [key, value] : lines[0].items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"variant", "step", "loss", "learning_rate", "gradient_norm", "loss_scale",
                                         "skipped", "seconds", "loader_wait", "samples_per_second", "time"});
  CHECK(lines[0]["variant"] == "serial");
  CHECK(lines[0]["loss"] == 1.0 / 3);
  CHECK(lines[0]["gradient_norm"].is_null());
  CHECK(lines[0]["samples_per_second"] == 128.0);
  CHECK(lines[1]["loss"].is_null());
  CHECK(lines[1]["gradient_norm"] == 2.5);
  CHECK(lines[0]["loader_wait"].is_null());
  CHECK(lines[1]["loader_wait"] == 0.125);
  CHECK(lines[0]["loss_scale"].is_null());
  CHECK(lines[0]["skipped"] == false);
  CHECK(lines[1]["loss_scale"] == 32768);
  CHECK(lines[1]["skipped"] == true);
  CHECK(lines[1]["samples_per_second"].is_null());
  CHECK(fs::file_size(folder.path() / "tensorboard/serial/events.out.tfevents.heddle") > 100);
}

TEST_CASE("accuracies are in the line of the step after which they were measured, and a resumed run keeps them") {
  const Scratch scratch;
  {
    ResultsFolder folder(scratch / "a", "{}\n", false);
    folder.begin_variant("serial", 0, 64);
    StepRecord record = step_record(0, 0.5, 0.5);
    record.accuracies = {{"second \"set\"", 0.75}, {"first", 0.5}};
    folder.step(record);
  }
  const auto lines = metrics_of(scratch / "a");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["accuracy"].dump() == R"({"second \"set\"":0.75,"first":0.5})");
  const fs::path events = scratch / "a/tensorboard/serial/events.out.tfevents.heddle";
  CHECK(read_file(events, mebi).find("accuracy/first") != std::string::npos);
  ResultsFolder folder(scratch / "a", "{}\n", true);
  const StepHistory kept = folder.begin_variant("serial", 1, 64).steps;
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].accuracies == std::vector<std::pair<std::string, double>>{{"second \"set\"", 0.75}, {"first", 0.5}});
  CHECK(read_file(events, mebi).find("accuracy/first") != std::string::npos);
}

TEST_CASE("the curves of evaluated sets are in roc.csv, which a run without sets does not leave behind") {
  const Scratch scratch;
  RunResult run = run_result();
  run.variants[0].evaluation->sets = {evaluated_set("a,b")};
  {
    ResultsFolder folder(scratch / "a", "{}\n", false);
    folder.write(run);
  }
  CHECK(read_file(scratch / "a/roc.csv", mebi) ==
        "variant,set,threshold,far,tar\n"
        "serial,\"a,b\",-inf,0,0\n"
        "serial,\"a,b\",0.5,0.25,1\n"
        "serial,\"a,b\",2,1,1\n");
  run.variants[0].evaluation->sets.clear();
  ResultsFolder folder(scratch / "a", "{}\n", false);
  folder.write(run);
  CHECK(!fs::exists(scratch / "a/roc.csv"));
}

TEST_CASE("a results folder holds its files, and one folder per variant for the schedules of a study") {
  const Scratch scratch;
  const RunResult run = run_result();
  ResultsFolder folder(scratch / "a", "{\"name\": 1}\n", false);
  folder.write(run);
  CHECK(read_file(folder.path() / "experiment.json", mebi) == "{\"name\": 1}\n");
  CHECK(read_file(folder.path() / "summary.json", mebi) == summary_json(run));
  CHECK(read_file(folder.path() / "memory.csv", mebi) == memory_csv(run));
  CHECK(read_file(folder.path() / "schedule.csv", mebi) == schedule_csv(run.variants[0]));
  CHECK(read_file(folder.path() / "variants/sharded/schedule.csv", mebi) == schedule_csv(run.variants[1]));
  CHECK(OrderedJson::parse(read_file(folder.path() / "trace.json", mebi)).contains("traceEvents"));
}

TEST_CASE("a new run replaces an earlier one's files and leaves all others") {
  const Scratch scratch;
  {
    ResultsFolder folder(scratch / "a", "{}\n", false);
    folder.begin_variant("old", 0, 1);
    folder.step(step_record(0, 1, 1));
    folder.write(run_result());
  }
  write_file_atomically(scratch / "a/notes.txt", "mine");
  write_file_atomically(scratch / "a/variants/serial/notes.txt", "mine");
  ResultsFolder folder(scratch / "a", "{}\n", false);
  CHECK(fs::exists(scratch / "a/summary.json"));  // a run that fails before it begins costs nothing
  folder.begin_variant("new", 0, 1);
  CHECK(read_file(scratch / "a/metrics.jsonl", 100).empty());
  for (const char* const gone : {"a/summary.json", "a/memory.csv", "a/trace.json", "a/schedule.csv",
                                 "a/tensorboard/old", "a/variants/sharded", "a/variants/serial/schedule.csv"})
    CHECK_FALSE(fs::exists(scratch / gone));
  CHECK(read_file(scratch / "a/notes.txt", 100) == "mine");
  CHECK(read_file(scratch / "a/variants/serial/notes.txt", 100) == "mine");
}

TEST_CASE("a resumed run that begins removes the summary of the run that it resumes, and no checkpoint") {
  const Scratch scratch;
  ResultsFolder(scratch / "a", "{}\n", false).write(run_result());
  fs::create_directories(scratch / "a/checkpoint/serial/step-000002");
  ResultsFolder folder(scratch / "a", "{}\n", true);
  CHECK(fs::exists(scratch / "a/summary.json"));
  folder.begin_variant("serial", 2, 64);
  CHECK_FALSE(fs::exists(scratch / "a/summary.json"));
  CHECK(fs::exists(scratch / "a/checkpoint/serial/step-000002"));
}

TEST_CASE("a resumed run keeps the steps before its first one, and drops later ones and a torn last line") {
  const Scratch scratch;
  const fs::path events = scratch / "a/tensorboard/x/events.out.tfevents.heddle";
  std::uintmax_t two_steps = 0;
  {
    ResultsFolder folder(scratch / "a", "{}\n", false);
    folder.begin_variant("before", 0, 8);
    folder.step(step_record(7, 1, 1));
    folder.begin_variant("x", 0, 8);
    for (int step = 0; step < 4; ++step) {
      folder.step(step_record(step, 10.0 - step, 0.5));
      if (step == 1) two_steps = fs::file_size(events);
    }
  }
  std::ofstream(scratch / "a/metrics.jsonl", std::ios::app) << "{\"variant\": \"x\", \"ste";
  ResultsFolder folder(scratch / "a", "{}\n", true);
  const StepHistory kept = folder.begin_variant("x", 2, 8).steps;
  REQUIRE(kept.size() == 2);
  CHECK(kept[1].step == 1);
  CHECK(kept[1].loss == 9.0);
  CHECK(kept[1].seconds == 0.5);
  CHECK(fs::file_size(events) == two_steps);
  folder.step(step_record(2, 3.5, 0.5));
  const auto lines = metrics_of(folder.path());
  REQUIRE(lines.size() == 4);
  CHECK(lines[0]["variant"] == "before");
  CHECK(lines[3]["step"] == 2);
  CHECK(lines[3]["loss"] == 3.5);
}

/// How often a file was replaced: each time by another one.
class Replaced {
 public:
  explicit Replaced(fs::path path) : path_(std::move(path)) {}
  void look() {
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0) return;
    if (status.st_ino != inode_) {
      ++count;
      bytes += status.st_size;
    }
    inode_ = status.st_ino;
    last = status.st_size;
  }
  int count = 0;
  std::int64_t bytes = 0;
  std::int64_t last = 0;

 private:
  fs::path path_;
  ino_t inode_ = 0;
};

TEST_CASE(
    "the bytes written by a study of many short variants grow with their number, and the last write has all of them" *
    doctest::test_suite(test::long_under_sanitizers)) {
  const auto bytes_of = [](int variants) {
    const Scratch scratch;
    ResultsFolder folder(scratch / "a", "{}\n", false, [] { return 0.0; });
    Replaced summary(scratch / "a/summary.json");
    Replaced schedule(scratch / "a/variants/0/schedule.csv");
    RunResult run;
    for (int i = 0; i < variants; ++i) {
      run.variants.push_back(variant_result(std::to_string(i), 1, 1));
      folder.begin_variant(run.variants.back().name, 0, 1);
      folder.write_if_due(run);
      summary.look();
      schedule.look();
    }
    folder.finish(run);
    summary.look();
    CHECK(schedule.count == 1);
    CHECK(OrderedJson::parse(read_file(scratch / "a/summary.json", 64 * mebi))["variants"].size() ==
          static_cast<std::size_t>(variants));
    CHECK(fs::exists(folder.path() / "variants" / std::to_string(variants - 1) / "schedule.csv"));
    CHECK(summary.bytes < 20 * summary.last);
    return static_cast<double>(summary.bytes);
  };
  // Quadratic growth would give 16.
  CHECK(bytes_of(400) / bytes_of(100) < 6);
}

TEST_CASE("a study of slow variants is written after each of them") {
  const Scratch scratch;
  double now = 0;
  ResultsFolder folder(scratch / "a", "{}\n", false, [&] { return now; });
  RunResult run;
  for (std::size_t i = 0; i < 40; ++i) {
    run.variants.push_back(variant_result(std::to_string(i), 1, 1));
    now += 1.5;
    folder.write_if_due(run);
    CHECK(OrderedJson::parse(read_file(scratch / "a/summary.json", mebi))["variants"].size() == i + 1);
  }
}

TEST_CASE("a variant begins on a full disk, and its steps and those before it are written once there is room") {
  const Scratch scratch;
  ResultsFolder folder(scratch / "a", "{}\n", false);
  folder.begin_variant("first", 0, 1);
  {
    const FileSizeLimit full(1);
    CHECK(folder.step(step_record(0, 0.5, 1)) ==
          (scratch / "a/metrics.jsonl").string() + ": cannot be written: File too large");
    folder.begin_variant("second", 0, 1);
    CHECK_FALSE(folder.step(step_record(0, 0.25, 1)));  // the reason is known
    CHECK_THROWS_AS(folder.write(run_result()), DiskError);
  }
  folder.write(run_result());
  const auto lines = metrics_of(scratch / "a");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["variant"] == "first");
  CHECK(lines[1]["variant"] == "second");
  for (const char* variant : {"first", "second"}) {
    const std::string events = read_file(scratch / "a/tensorboard" / variant / "events.out.tfevents.heddle", mebi);
    CAPTURE(variant);
    CHECK(events.find("brain.Event:2") != std::string::npos);
    CHECK(events.find("learning_rate") != std::string::npos);
  }
}

TEST_CASE("a variant of a resumed run begins on a full disk unless steps must be dropped from its metrics") {
  const Scratch scratch;
  {
    ResultsFolder folder(scratch / "a", "{}\n", false);
    for (const char* variant : {"first", "third"}) {
      folder.begin_variant(variant, 0, 1);
      for (int step = 0; step < 3; ++step) folder.step(step_record(step, 0.5, 1));
    }
  }
  ResultsFolder folder(scratch / "a", "{}\n", true);
  folder.begin_variant("first", 3, 1);
  {
    const FileSizeLimit full(std::filesystem::file_size(scratch / "a/metrics.jsonl") + 5);
    CHECK(folder.step(step_record(3, 0.5, 1)));
    CHECK(folder.begin_variant("second", 0, 1).steps.empty());
    CHECK_THROWS_AS(folder.begin_variant("third", 1, 1), DiskError);
  }
  CHECK(folder.begin_variant("third", 1, 1).steps.size() == 1);
  folder.step(step_record(1, 0.25, 1));
  folder.write(run_result());
  std::vector<std::string> steps;
  for (const OrderedJson& line : metrics_of(scratch / "a"))
    steps.push_back(line["variant"].get<std::string>() + line["step"].dump());
  CHECK(steps == std::vector<std::string>{"first0", "first1", "first2", "third0", "first3", "third1"});
}

TEST_CASE("a run is resumed on a full disk: its last steps are dropped, and experiment.json is replaced later") {
  const Scratch scratch;
  {
    ResultsFolder folder(scratch / "a", "before\n", false);
    folder.begin_variant("first", 0, 1);
    for (int step = 0; step < 3; ++step) folder.step(step_record(step, 0.5, 1));
  }
  const auto described = [&] { return read_file(scratch / "a/experiment.json", mebi); };
  ResultsFolder folder(scratch / "a", "after\n", true);
  {
    const FileSizeLimit full(1);
    CHECK(folder.begin_variant("first", 1, 1).steps.size() == 1);
    CHECK(metrics_of(scratch / "a").size() == 1);
    CHECK(folder.step(step_record(1, 0.25, 1)));
    CHECK_THROWS_AS(folder.write(run_result()), DiskError);
    CHECK(described() == "before\n");
  }
  folder.write(run_result());
  CHECK(described() == "after\n");
  CHECK(metrics_of(scratch / "a").size() == 2);
  const FileSizeLimit full(1);
  ResultsFolder fresh(scratch / "b", "{}\n", true);
  CHECK_THROWS_AS(fresh.begin_variant("first", 0, 1), DiskError);
}

TEST_CASE("a results folder that is removed or replaced during the run is an error") {
  const Scratch scratch;
  const fs::path path = scratch / "a";
  ResultsFolder folder(path, "{}\n", false);
  folder.begin_variant("first", 0, 1);
  const std::string expected = path.string() + ": the results folder was removed or replaced during the run";
  fs::remove_all(path);
  CHECK(message_of([&] { folder.write(run_result()); }) == expected);
  fs::create_directory(path);
  CHECK(message_of([&] { folder.begin_variant("second", 0, 1); }) == expected);
  CHECK(fs::is_empty(path));
}

TEST_CASE("a run that never begins leaves no folder that it made, and keeps those that were there") {
  const Scratch scratch;
  fs::create_directory(scratch / "there");
  { const ResultsFolder folder(scratch / "there/a/b", "{}", false); }
  { const ResultsFolder folder(scratch / "there", "{}", false); }
  CHECK(fs::is_empty(scratch / "there"));
}

TEST_CASE("a results folder that cannot be made is an error that names it") {
  const Scratch scratch;
  write_file_atomically(scratch / "file", "");
  const fs::path path = scratch / "file/results";
  CHECK(message_of<InputError>([&] { ResultsFolder folder(path, "{}", false); }) ==
        path.string() + ": cannot be created as a folder: Not a directory");
  fs::create_symlink(scratch / "nowhere", scratch / "link");
  CHECK(message_of<InputError>([&] { ResultsFolder folder(scratch / "link", "{}", false); }) ==
        (scratch / "link").string() + ": cannot be created as a folder: it is a link to " +
            (scratch / "nowhere").string() + ", which does not exist");
}

TEST_CASE("different variants have different folders, all of them harmless names") {
  CHECK(folder_name("gpipe_v2.1-a") == "gpipe_v2.1-a");
  CHECK(folder_name("..") == "%2E.");
  CHECK(folder_name("a/b c") == "a%2Fb%20c");
  CHECK(folder_name("a%2Fb") == "a%252Fb");
  CHECK(folder_name("") == "%");
  const std::string long_name(300, 'a');
  CHECK(variant_of_folder(folder_name("a/b c%2F\xFF")) == "a/b c%2F\xFF");
  CHECK(variant_of_folder(folder_name(long_name)) == folder_name(long_name));
  CHECK(variant_of_folder("100%") == "100%");
  const std::string one = folder_name(std::string(300, 'a') + "1");
  CHECK(one.size() < 255);
  CHECK(one != folder_name(std::string(300, 'a') + "2"));
}

}  // namespace
}  // namespace heddle::test
