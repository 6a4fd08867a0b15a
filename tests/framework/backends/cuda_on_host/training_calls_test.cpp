// What a training step on a GPU calls, and what it waits for.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/cuda_on_host/cuda_runtime.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

/// What a training of a small experiment, with these settings, calls.
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
  return calls_on_host() - before;
}

// The first steps open libraries and take the page-locked memory; those that are traced wait for their clock.
constexpr int uncounted_steps = 7;
constexpr int counted_steps = 4;

/// What each of the steps after the first ones calls.
CallsOnHost calls_of_step(const std::vector<std::string>& settings) {
  const CallsOnHost shorter = calls_of(uncounted_steps, settings);
  CHECK(shorter.device_wide > 0);
  return (calls_of(uncounted_steps + counted_steps, settings) - shorter) / counted_steps;
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
  for (const Layout& layout : layouts) {
    CAPTURE(layout.settings[0]);
    const CallsOnHost calls = calls_of_step(layout.settings);
    CHECK(calls.device_wide == 0);
    CHECK(calls.waits == layout.ranks * layout.reads);
  }
}

TEST_CASE("a profiler sees each action of a step as a range") {
  const CallsOnHost calls = calls_of_step({R"(mesh={"pp":2})", "pipeline.schedule=gpipe", "train.micro_batches=4"});
  // On each rank four F, H and B, the head's weights and the optimizer; on the first one each F also loads images, for
  // which it waits.
  CHECK(calls.ranges_begun == 2 * (3 * 4 + 1 + 1) + 2 * 4);
  CHECK(calls.ranges_ended == calls.ranges_begun);
}

std::string to_text(const CallsOnHost& calls) {
  return fmt::format("{} kernels, {} products, {} convolutions, {} copies of {} bytes", calls.kernels, calls.products,
                     calls.convolutions, calls.copies, calls.copied_bytes);
}

// For small layers a GPU takes the time of the launches. A change that adds some to a step changes a line here.
TEST_CASE("a training step makes exactly these launches, calls of cuBLASLt and cuDNN, and copies") {
  const std::string convolutions = R"(model={"type":"layers","layers":[{"type":"conv2d","out":8},{"type":"batch_norm"},
    {"type":"relu"},{"type":"conv2d","out":8},{"type":"flatten"},{"type":"linear","out":5}]})";
  const std::string transformer = R"(model={"type":"vit","features":16,"blocks":1,"heads":2,"patch":4,"embedding":5})";
  const auto step = [](const std::vector<std::string>& settings) { return to_text(calls_of_step(settings)); };
  CHECK(step({"head.logits=sharded"}) == "27 kernels, 12 products, 0 convolutions, 11 copies of 2764 bytes");
  CHECK(step({"head.logits=fused"}) == "33 kernels, 12 products, 0 convolutions, 10 copies of 2732 bytes");
  CHECK(step({"head.logits=fused", R"(head.state={"weights":"bf16","momentum":"bf16"})"}) ==
        "34 kernels, 12 products, 0 convolutions, 10 copies of 2732 bytes");
  CHECK(step({R"(head.sample={"rate":0.5})"}) == "33 kernels, 12 products, 0 convolutions, 14 copies of 2934 bytes");
  CHECK(step({R"(train.optimizer={"type":"adamw","lr":0.001})", R"(train.clip={"norm":1})"}) ==
        "45 kernels, 14 products, 0 convolutions, 12 copies of 2820 bytes");
  CHECK(step({"train.micro_batches=2"}) == "57 kernels, 24 products, 0 convolutions, 22 copies of 2776 bytes");
  CHECK(step({convolutions}) == "30 kernels, 7 products, 5 convolutions, 15 copies of 2928 bytes");
  CHECK(step({convolutions, "train.dtype=bf16"}) == "41 kernels, 7 products, 5 convolutions, 15 copies of 2928 bytes");
  CHECK(step({transformer}) == "71 kernels, 22 products, 2 convolutions, 19 copies of 3192 bytes");
}

}  // namespace
}  // namespace heddle::test
