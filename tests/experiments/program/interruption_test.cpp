// A run that is interrupted by signals, as a user sees it.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "framework/description/text.h"
#include "framework/files/atomic_file.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

/// Sends this process a signal once the run has written the first lines of its metrics.
std::jthread signal_when_running(const std::filesystem::path& out, int signal) {
  return std::jthread([out, signal](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::error_code error;
      if (std::filesystem::file_size(out / "metrics.jsonl", error) == 0 || error) continue;
      ::kill(::getpid(), signal);
      return;
    }
  });
}

/// Sends this process a signal this long after the program has taken it over.
std::jthread signal_during_search(int signal, std::chrono::milliseconds delay) {
  struct sigaction before {};
  REQUIRE(::sigaction(signal, nullptr, &before) == 0);
  return std::jthread([signal, before, delay](const std::stop_token& stop) {
    struct sigaction now = before;
    while (!stop.stop_requested() && now.sa_handler == before.sa_handler) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ::sigaction(signal, nullptr, &now);
    }
    std::this_thread::sleep_for(delay);
    if (!stop.stop_requested()) ::kill(::getpid(), signal);
  });
}

}  // namespace

TEST_CASE("an interrupted run saves, says how to continue, and gives the exit code of the signal") {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    CAPTURE(signal);
    const Scratch folder;
    const std::string file = (folder / "a run.json").string();
    const std::string out = (folder / "out").string();
    write_file_atomically(file, R"({"name": "small", "threads": 1, "mesh": {"dp": 2},
      "data": {"type": "synthetic_identities", "identities": 5, "image": [1, 8, 8]}, "model": {"type": "mlp"},
      "head": {"classes": 5}, "train": {"batch": 8, "steps": 100000000, "save_signal": "USR1"}, "evaluation": null,
      "variants": [{"name": "first", "patch": {}}, {"name": "second", "patch": {}}]})");
    const std::vector<std::string> run{"run", file, "--json", "--out", out};
    const std::jthread sender = signal_when_running(out, signal);
    const Called stopped = call(run);
    CHECK(stopped.code == 128 + signal);
    const nlohmann::json variants = nlohmann::json::parse(stopped.out)["variants"];
    REQUIRE(variants.size() == 1);
    CHECK(variants[0]["status"] == "interrupted");
    CHECK(variants[0]["error"] == fmt::format("by SIG{}", ::sigabbrev_np(signal)));
    const auto steps = variants[0]["steps"].get<std::int64_t>();
    CHECK(steps > 0);
    CHECK(std::filesystem::exists(folder / "out/checkpoint/first" / fmt::format("step-{:06}", steps)));
    CHECK(stopped.err.ends_with(
        fmt::format("to continue: ./heddle run {} --out {} --resume\n", shell_word(file), shell_word(out))));
    const Called resumed = call({"run", file, "--out", out, "--resume", "--set", fmt::format("train.steps={}", steps)});
    CHECK(resumed.code == 0);
    CHECK(resumed.err.find(fmt::format("resuming after step {}\n", steps)) != std::string::npos);
  }
}

TEST_CASE("after a signal no later variant begins, even if the step that is under way fails") {
  const Scratch folder;
  const std::string file = (folder / "diverging.json").string();
  const std::string out = (folder / "out").string();
  // The second step, whose loss is not finite, takes long enough for the signal.
  write_file_atomically(file, R"({"name": "diverging", "threads": 1,
    "data": {"type": "synthetic_identities", "identities": 64, "image": [1, 8, 8], "train_per_identity": 64},
    "model": {"type": "mlp", "hidden": [2048, 2048]}, "head": {"classes": 64},
    "train": {"batch": 4096, "steps": 4, "optimizer": {"lr": 1e30}}, "evaluation": null,
    "variants": [{"name": "first", "patch": {}}, {"name": "second", "patch": {}}]})");
  const std::jthread sender = signal_when_running(out, SIGINT);
  const Called stopped = call({"run", file, "--json", "--out", out});
  CHECK(stopped.code == 128 + SIGINT);
  const nlohmann::json variants = nlohmann::json::parse(stopped.out)["variants"];
  REQUIRE(variants.size() == 1);
  CHECK(variants[0]["status"] == "failed");
  CHECK(stopped.err.ends_with("SIGINT: first failed before the end of its step; later variants do not begin\n"));
}

TEST_CASE("an interrupted run that saves no checkpoints says so") {
  const Scratch folder;
  const std::string file = (folder / "small.json").string();
  const std::string out = (folder / "out").string();
  write_file_atomically(file, R"({"name": "small", "threads": 1,
    "data": {"type": "synthetic_identities", "identities": 5, "image": [1, 8, 8]}, "model": {"type": "mlp"},
    "head": {"classes": 5}, "train": {"batch": 8, "steps": 100000000, "save": false}, "evaluation": null})");
  const std::jthread sender = signal_when_running(out, SIGINT);
  const Called stopped = call({"run", file, "--out", out});
  CHECK(stopped.code == 128 + SIGINT);
  CHECK(stopped.out.find("small was interrupted: by SIGINT\n") != std::string::npos);
  CHECK(stopped.err.ends_with("nothing is saved: train.save is false\n"));
}

TEST_CASE("an interrupted search prints the best schedule so far, and gives the exit code of the signal") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    // The search shows its progress after a second.
    const std::jthread sender = signal_during_search(signal, std::chrono::milliseconds(1500));
    // Takes about a minute if nothing interrupts it.
    const std::vector<const char*> search{"heddle",          "schedule", "--search", "--stages", "12",
                                          "--micro-batches", "96",       "--memory", "6",        "--json"};
    std::ostringstream out;
    std::ostringstream err;
    const int code = run_command_line(static_cast<int>(search.size()), search.data(),
                                      {.out = out, .err = err, .terminal = {true, false, 120}});
    CHECK(code == 128 + signal);
    CHECK(err.str().starts_with("\rsearching  "));
    CHECK(err.str().find(" schedules tried  best ") != std::string::npos);
    CHECK(err.str().find("  lower bound ") != std::string::npos);
    const nlohmann::json best = nlohmann::json::parse(out.str());
    CHECK(best["interrupted"] == true);
    CHECK(best["weighed"][0]["fits"] == true);
    CHECK(best["makespan"].get<double>() >= best["bound"].get<double>());
    CHECK(best["tried"]["named"].get<int>() > 0);
  }
}

TEST_CASE(
    "a search for layouts that is interrupted before anything fits says so, and gives the exit code of the signal") {
  const Scratch folder;
  const std::string file = (folder / "small.json").string();
  std::ofstream(file) << R"({"name": "small", "threads": 1, "mesh": {"dp": 256},
    "data": {"type": "synthetic_identities", "identities": 20, "image": [1, 8, 8], "train_per_identity": 4},
    "model": {"type": "mlp", "hidden": [128, 128, 128, 128], "embedding": 32}, "head": {"classes": 200},
    "train": {"batch": 8192, "steps": 2}})";
  const std::string written = (folder / "found.json").string();
  // Without the signal, the search of 256 ranks takes seconds.
  const std::jthread sender = signal_during_search(SIGINT, std::chrono::milliseconds(300));
  const Called called = call({"plan", file, "--search", "--budget", "10KB", "--out", written});
  CHECK(called.code == 130);
  CHECK(called.err.find("heddle: interrupted before a layout that fits was found\nsmall: no layout that was tried fits "
                        "into 9.77 KiB per rank: the smallest peak is ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(written));
}

}  // namespace heddle::test
