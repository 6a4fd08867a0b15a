// What a training step on a GPU waits for.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/cuda_on_host/cuda_runtime.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

/// How often a training of a small experiment, with these settings, calls what waits.
CallsOnHost calls_of(int steps, const std::vector<std::string>& settings) {
  const Scratch folder;
  const std::filesystem::path file = folder / "small.json";
  std::ofstream(file) << R"({
    "name": "small", "device": "cuda",
    "data": {"type": "synthetic_identities", "identities": 6, "image": [1, 8, 8], "train_per_identity": 4,
             "test_per_identity": 2},
    "model": {"type": "mlp", "hidden": [12, 10], "embedding": 5}, "head": {"classes": 9},
    "train": {"batch": 8, "save": false}})";
  std::vector<std::string> arguments{"run", file.string(), "--out", (folder / "out").string()};
  const auto set = [&](const std::string& value) { arguments.insert(arguments.end(), {"--set", value}); };
  set("train.steps=" + std::to_string(steps));
  for (const std::string& setting : settings) set(setting);
  const CallsOnHost before = calls_on_host();
  const Called called = call(arguments);
  REQUIRE_MESSAGE(called.code == 0, called.err);
  return {calls_on_host().device_wide - before.device_wide, calls_on_host().waits - before.waits};
}

TEST_CASE("a training step waits for nothing device-wide, and its hosts only for what they read") {
  // A rank with a part of the head reads of each micro-batch whether its embeddings are finite, whether their gradient
  // is, and the loss; where the head is updated while that gradient is summed, whether the logits are.
  struct Layout {
    std::vector<std::string> settings;
    int ranks;
    int reads;  // of a rank
  };
  const std::vector<Layout> layouts{
      {{R"(mesh={"dp":2})"}, 2, 3 + 1},
      {{R"(mesh={"dp":4})"}, 4, 3 + 1},
      {{R"(mesh={"tp":2})"}, 2, 3 + 1},
      {{R"(mesh={"tp":4})", "head.logits=transposed"}, 4, 3 + 1},
      {{R"(mesh={"pp":2})", "pipeline.schedule=gpipe", "train.micro_batches=4"}, 2, 4 * 3},
      {{R"(mesh={"dp":2,"pp":2})", "pipeline.schedule=gpipe", "train.micro_batches=2"}, 4, 2 * 3},
  };
  // The first steps open libraries and take the page-locked memory; those that are traced wait for their clock.
  constexpr int first = 7;
  constexpr int more = 4;
  for (const Layout& layout : layouts) {
    CAPTURE(layout.settings[0]);
    const CallsOnHost shorter = calls_of(first, layout.settings);
    const CallsOnHost longer = calls_of(first + more, layout.settings);
    CHECK(shorter.device_wide > 0);
    CHECK(longer.device_wide == shorter.device_wide);
    CHECK(longer.waits - shorter.waits == more * layout.ranks * layout.reads);
  }
}

}  // namespace
}  // namespace heddle::test
