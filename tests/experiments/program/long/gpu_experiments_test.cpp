// The shipped experiments on a GPU beside the CPU. Without a GPU, and with kernels on the host, the program reports
// that there is none, and nothing is compared.
#include <algorithm>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/program/program.h"
#include "tests/support/program/shipped.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

using Json = nlohmann::json;
using namespace test;

/// A command on a device, called so.
ProgramResult call_on(const char* device, const std::string& command, std::vector<std::string> options,
                      const Scratch& scratch, const std::string& name) {
  const std::string result = fmt::format("{}.{}.{}", name, command, device);
  options.insert(options.begin(), command);
  if (command == "run") options.insert(options.end(), {"--out", (scratch / result.c_str()).string()});
  options.insert(options.end(),
                 {"--set", fmt::format("device={}", device), "--set", "clock=wall", "--set", "winograd=off"});
  return run_program(options, scratch / (result + ".json").c_str());
}

bool finds_gpu(const Scratch& scratch) {
  const ProgramResult asked =
      call_on("cuda", "run", {experiment_file("quickstart"), "--json", "--set", "train.steps=1"}, scratch, "asked");
  if (asked.code == 0) return true;
  REQUIRE_MESSAGE(asked.code == 2, asked.err);
  MESSAGE(asked.err);
  return false;
}

/// One line for each variant: the bytes that plan counts for all ranks, their peak, and the bytes that the allocator
/// reserved.
void tell_memory(const Json& planned, const Json& ran, const std::string& name) {
  const auto sum = [](const Json& ranks) {
    std::int64_t total = 0;
    for (const Json& rank : ranks) total += rank["peak_bytes"]["total"].get<std::int64_t>();
    return total;
  };
  const Json line{{"experiment", name},           {"variant", ran["name"]},
                  {"ranks", ran["ranks"].size()}, {"planned", sum(planned["ranks"])},
                  {"metered", sum(ran["ranks"])}, {"reserved", ran["ranks"][0]["reserved_bytes"]}};
  fmt::print("memory: {}\n", line.dump());
}

}  // namespace

TEST_CASE("shipped experiments have the same losses on a GPU as on the CPU, and hold the bytes that plan counts") {
  Scratch scratch;
  if (tested_backend() != "cuda" || !finds_gpu(scratch)) return;
  write_faces(scratch / "faces");
  for (const std::string& file : shipped()) {
    std::ifstream text(file);
    const Json experiment = Json::parse(text);
    if (experiment.value("device", "cpu") != "cpu") continue;
    CAPTURE(file);
    const std::string name = std::filesystem::path(file).stem();
    // Normalised over two values, last bits would decide about signs.
    constexpr std::int64_t samples = 8;
    std::vector<std::string> options = cut_short(file, experiment, scratch / "faces", samples);
    // At usual rates two devices, which differ in last bits, part within three steps. So this compares data, initial
    // weights, forward passes and memory; gradients and updates are compared by the tests of layouts and operations.
    const std::string rate = "train.optimizer.lr=1e-6";
    if (std::find(options.begin(), options.end(), rate) == options.end())
      options.insert(options.end(), {"--set", rate});
    const ProgramResult on_cpu = call_on("cpu", "run", options, scratch, name);
    const ProgramResult on_gpu = call_on("cuda", "run", options, scratch, name);
    const ProgramResult planned = call_on("cuda", "plan", options, scratch, name);
    CAPTURE(on_gpu.err);
    REQUIRE(on_cpu.code == 0);
    REQUIRE(on_gpu.code == 0);
    REQUIRE(planned.code == 0);
    const Json& expected = on_cpu.summary["variants"];
    const Json& variants = on_gpu.summary["variants"];
    for (std::size_t v = 0; v < expected.size(); ++v) {
      CAPTURE(expected[v]["name"].get<std::string>());
      REQUIRE(variants[v]["loss_per_step"].size() == expected[v]["loss_per_step"].size());
      const Json variant = patched(experiment, v);
      // Values of 16 bits are rounded where two devices' products lie on different sides of a boundary: by 2^-8 in
      // bf16.
      const bool is_wide = variant["train"].value("dtype", "f32") == "f32";
      const double tolerance = is_wide ? 1e-3 : 0x1p-8;
      for (std::size_t step = 0; step < expected[v]["loss_per_step"].size(); ++step) {
        if (expected[v]["loss_per_step"][step].is_null()) continue;
        CHECK(variants[v]["loss_per_step"][step].get<double>() ==
              close_to(expected[v]["loss_per_step"][step].get<double>()).epsilon(tolerance));
      }
      const Json& counted = planned.summary["variants"][v];
      tell_memory(counted, variants[v], name);
      // plan's times are others, and so are the stages of ranks of different speeds: plan's clock is virtual.
      if (is_cut_by_time(variant) || variant.value("/ranks/speed"_json_pointer, Json::array()).size() > 0) continue;
      for (std::size_t rank = 0; rank < variants[v]["ranks"].size(); ++rank)
        CHECK(counted["ranks"][rank]["peak_bytes"] == variants[v]["ranks"][rank]["peak_bytes"]);
    }
  }
}

}  // namespace heddle::test
