// Checkpoints that are written while the training goes on, those that stay, and those that a full disk does not take.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/checkpoints/host_copy.h"
#include "experiments/training/run.h"
#include "tests/support/devices.h"
#include "tests/support/files/file_size_limit.h"
#include "tests/support/mlp_experiment.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

Experiment saving_run(std::int64_t steps, std::int64_t save_every) {
  Experiment experiment = mlp_experiment({.dp = 2}, steps);
  experiment.train.save_every = save_every;
  return experiment;
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

/// Calls a function at each step and each note.
class Watcher final : public RunObserver {
 public:
  void on_step(const StepRecord& record) override {
    if (at_step) at_step(record.step + 1);
  }
  void on_note(const std::string& text) override {
    notes.push_back(text);
    if (at_note) at_note();
  }

  std::function<void(std::int64_t steps_done)> at_step;
  std::function<void()> at_note;
  std::vector<std::string> notes;
};

/// Whether a checkpoint follows after these steps, and the one before it is whole. That takes some steps, which last
/// long enough here.
bool is_next_due(const std::filesystem::path& folder, std::int64_t steps_done, std::int64_t every) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return steps_done % every == 0 && std::filesystem::exists(folder / step_name(steps_done - every));
}

/// The limit lets a file have less than the smallest rank's file, and more than its checksum.
constexpr rlim_t small_file = 200;

TEST_CASE("the newest checkpoints stay, as many as train.keep says, and what killed runs have left goes") {
  const Scratch scratch;
  Experiment experiment = saving_run(7, 2);
  for (const char* const left : {"step-000003.partial", "other.partial"})
    std::filesystem::create_directories(scratch / left);
  (void)run_variant(experiment, "base", {.checkpoints = scratch / ""});
  CHECK(names_in(scratch / "") == std::set<std::string>{"other.partial", "step-000007"});
  experiment.train.keep = 3;
  (void)run_variant(experiment, "base", {.checkpoints = scratch / ""});
  CHECK(names_in(scratch / "") == std::set<std::string>{"other.partial", "step-000004", "step-000006", "step-000007"});
}

TEST_CASE("a checkpoint that is written during later steps has the bytes of one for which they wait") {
  const Scratch scratch;
  Experiment experiment = saving_run(9, 1);
  experiment.train.keep = 9;
  const VariantResult later = run_variant(experiment, "base", {.checkpoints = scratch / "later"});
  experiment.train.async_save = false;
  const VariantResult at_once = run_variant(experiment, "base", {.checkpoints = scratch / "at_once"});
  CHECK(names_in(scratch / "later").size() == 9);
  for (int steps = 1; steps <= 9; ++steps)
    for (const char* const file : {"rank-0.safetensors", "rank-0.crc32c", "rank-1.safetensors", "rank-1.crc32c"}) {
      const auto content = [&](const char* folder) {
        return read_file(scratch / folder / step_name(steps) / file, 1 << 22);
      };
      CHECK(content("later") == content("at_once"));
    }
  experiment.train.async_save = true;
  experiment.device = DeviceType::plan;
  const VariantResult planned = run_variant(experiment, "base");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(later.ranks[rank].checkpoint_copy > 0);
    CHECK(planned.ranks[rank].checkpoint_copy == later.ranks[rank].checkpoint_copy);
    CHECK(at_once.ranks[rank].checkpoint_copy == 0);
  }
}

TEST_CASE("state of every type is saved as it was after its step, while later steps change it") {
  for (const bool is_adamw : {false, true})
    for (const WeightState weights : {WeightState::f32, WeightState::bf16, WeightState::int8}) {
      if (is_adamw && weights != WeightState::f32) continue;
      const Scratch scratch;
      Experiment experiment = saving_run(10, 3);
      experiment.train.keep = 9;
      if (is_adamw) experiment.train.optimizer.type = OptimizerType::adamw;
      experiment.head.weights = weights;
      if (weights != WeightState::f32) experiment.head.momentum = MomentumState::bf16;
      for (const bool is_async : {true, false}) {
        experiment.train.async_save = is_async;
        (void)run_variant(experiment, "base", {.checkpoints = scratch / (is_async ? "later" : "at_once")});
      }
      for (const int steps : {3, 6, 9, 10})
        for (const char* const file : {"rank-0.safetensors", "rank-1.safetensors"}) {
          const auto content = [&](const char* folder) {
            return read_file(scratch / folder / step_name(steps) / file, 1 << 22);
          };
          CHECK(content("later") == content("at_once"));
        }
    }
}

TEST_CASE("a large state is saved as it was after its step, although steps go on while the thread rests" *
          doctest::test_suite(long_under_sanitizers)) {
  const Scratch scratch;
  Experiment experiment = saving_run(41, 20);
  experiment.train.keep = 2;
  experiment.head.classes = 40000;
  for (const bool is_async : {true, false}) {
    experiment.train.async_save = is_async;
    (void)run_variant(experiment, "base", {.checkpoints = scratch / (is_async ? "later" : "at_once")});
  }
  for (const char* const file : {"rank-0.crc32c", "rank-1.crc32c"}) {
    const auto content = [&](const char* folder) {
      return read_file(scratch / folder / step_name(40) / file, 1 << 10);
    };
    CHECK(std::filesystem::file_size(scratch / "later" / step_name(40) / "rank-0.safetensors") >
          (std::size_t{18} << 20));
    CHECK(content("later") == content("at_once"));
  }
}

TEST_CASE("a thread rests for most of the time that there is, and no longer than until it is hurried") {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [](Pace& pace) {
    const Clock::time_point begin = Clock::now();
    for (int piece = 1; piece <= 10; ++piece) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      pace.rest(piece / 10.0);
    }
    return Pace::Seconds(Clock::now() - begin).count();
  };
  Pace pace;
  pace.begin(Pace::Seconds(0.1));
  CHECK(seconds_of(pace) >= 0.1);
  pace.begin(Pace::Seconds(1e12));
  CHECK(seconds_of(pace) >= 10 * 15 * 0.002);
  pace.begin(Pace::Seconds(-1));
  CHECK(seconds_of(pace) >= 0.02);
  pace.begin(Pace::Seconds(3600));
  std::thread other([&] { pace.hurry(); });
  pace.rest(1);
  other.join();
  CHECK(seconds_of(pace) < 3600);
}

TEST_CASE("what every step rewrites stays where it is, until it is written elsewhere or no longer read") {
  Device device = make_device();
  StateTensor state{"weight", tensor(device, {3}, {1, 2, 3}, DType::f32), {}, true};
  HostCopy copy(device);
  REQUIRE(copy.take({state}));
  CHECK(copy.elements()[0].data() == state.value.data());
  const std::shared_ptr<Storage> next = state.value.storage()->next();
  REQUIRE(next != nullptr);
  Tensor::view(next, 0, {3}, DType::f32).fill(7);
  state.value.storage()->move_to_next();
  CHECK(state.value.to_doubles() == std::vector<double>{7, 7, 7});
  const std::vector<float> before{1, 2, 3};
  CHECK(std::ranges::equal(copy.elements()[0], std::as_bytes(std::span(before))));
  copy.release();
  REQUIRE(copy.take({state}));
  CHECK(state.value.storage()->next() == next);
  CHECK(copy.capacity() == state.value.bytes());
  copy.release();
  CHECK(state.value.storage()->next() == nullptr);
}

TEST_CASE("a copy that is being written is not prepared again") {
  Device device = make_device();
  const std::vector<StateTensor> tensors{{"weight", Tensor::full(device, {1 << 20}, DType::f32, 1.1), {}}};
  HostCopy copy(device);
  REQUIRE(copy.take(tensors));  // of the best checkpoint after the first step
  copy.prepare(tensors, Pace::Seconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::span<const std::byte> bytes = copy.elements()[0];
  const std::vector<float> elements = tensors[0].value.to_host<float>();
  CHECK(std::ranges::equal(bytes, std::as_bytes(std::span(elements))));
}

TEST_CASE("a run that saves at its end only makes no copy") {
  const Scratch scratch;
  const VariantResult result = run_variant(saving_run(3, 0), "base", {.checkpoints = scratch / ""});
  CHECK(result.ranks[0].checkpoint_copy == 0);
  CHECK(names_in(scratch / "") == std::set<std::string>{"step-000003"});
}

TEST_CASE("the training goes on without a checkpoint that the disk does not take, and an earlier one stays") {
  for (const bool is_async : {true, false}) {
    const Scratch scratch;
    Experiment experiment = saving_run(60, 5);
    experiment.train.async_save = is_async;
    std::optional<FileSizeLimit> limit;
    std::set<std::string> while_full;
    std::int64_t lost = 0;
    Watcher watcher;
    watcher.at_step = [&](std::int64_t steps_done) {
      if (lost > 0 || !is_next_due(scratch / "", steps_done, 5)) return;
      lost = steps_done;
      limit.emplace(small_file);
    };
    watcher.at_note = [&] {
      limit.reset();
      while_full = names_in(scratch / "");
    };
    const VariantResult result = run_variant(experiment, "base", {.checkpoints = scratch / "", .observer = &watcher});
    CHECK(result.status == VariantResult::Status::ok);
    REQUIRE(result.lost_checkpoints.size() == 1);
    CHECK(result.lost_checkpoints[0].steps == lost);
    const std::string why =
        (scratch / "" / step_name(lost) / "rank-0.safetensors").string() + ": cannot be written: File too large";
    CHECK(result.lost_checkpoints[0].why == why);
    CHECK(watcher.notes == std::vector<std::string>{fmt::format(
                               "the checkpoint after {} steps is lost: {}; the newest one is that after {} steps", lost,
                               why, lost - 5)});
    CHECK(while_full == std::set<std::string>{step_name(lost - 5)});
    CHECK(names_in(scratch / "") == std::set<std::string>{"step-000060"});
  }
}

TEST_CASE("a run whose last checkpoint is lost says so, and keeps the one before") {
  const Scratch scratch;
  std::optional<FileSizeLimit> limit;
  Experiment experiment = saving_run(5, 2);
  experiment.train.async_save = false;
  Watcher watcher;
  watcher.at_step = [&](std::int64_t steps_done) {
    if (steps_done == 5) limit.emplace(small_file);
  };
  const VariantResult result = run_variant(experiment, "base", {.checkpoints = scratch / "", .observer = &watcher});
  limit.reset();
  CHECK(result.status == VariantResult::Status::not_saved);
  CHECK(result.steps.size() == 5);
  CHECK(result.error == (scratch / "step-000005/rank-0.safetensors").string() + ": cannot be written: File too large");
  CHECK(names_in(scratch / "") == std::set<std::string>{"step-000004"});
}

TEST_CASE("a folder of checkpoints that is gone for a while is made again") {
  const Scratch scratch;
  const Experiment experiment = saving_run(60, 5);
  std::int64_t lost = 0;
  Watcher watcher;
  watcher.at_step = [&](std::int64_t steps_done) {
    if (lost > 0 || !is_next_due(scratch / "saved", steps_done, 5)) return;
    lost = steps_done;
    std::filesystem::remove_all(scratch / "saved");
    std::ofstream(scratch / "saved") << "x";  // a plain file in its place
  };
  watcher.at_note = [&] { std::filesystem::remove(scratch / "saved"); };
  const VariantResult result =
      run_variant(experiment, "base", {.checkpoints = scratch / "saved", .observer = &watcher});
  CHECK(result.status == VariantResult::Status::ok);
  REQUIRE(result.lost_checkpoints.size() == 1);
  CHECK(result.lost_checkpoints[0].why ==
        (scratch / "saved" / step_name(lost)).string() + ": cannot be written: Not a directory");
  CHECK(watcher.notes[0].ends_with(fmt::format("; the newest one is that after {} steps", lost - 5)));
  CHECK(names_in(scratch / "saved") == std::set<std::string>{"step-000060"});
}

}  // namespace

}  // namespace heddle::test
