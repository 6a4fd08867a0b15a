// The shipped experiments on a GPU beside the CPU. Without a GPU, and with kernels on the host, the program itself says
// that there is none; then nothing is compared.
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/support/devices.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"
#include "tests/support/shipped.h"

namespace heddle {

namespace {

using Json = nlohmann::json;
using namespace test;

Ended run_on(const char* device, std::vector<std::string> options, const Scratch& scratch, const std::string& name) {
  const std::string result = fmt::format("{}.{}", name, device);
  options.insert(options.begin(), {"run", "--out", (scratch / result.c_str()).string()});
  options.insert(options.end(),
                 {"--set", fmt::format("device={}", device), "--set", "clock=wall", "--set", "winograd=false"});
  return run_program(options, scratch / (result + ".json").c_str());
}

bool finds_gpu(const Scratch& scratch) {
  const Ended asked =
      run_on("cuda", {experiment_file("quickstart"), "--json", "--set", "train.steps=1"}, scratch, "asked");
  if (asked.code == 0) return true;
  REQUIRE_MESSAGE(asked.code == 2, asked.said);
  MESSAGE(asked.said);
  return false;
}

}  // namespace

TEST_CASE("shipped experiments lose on a GPU what they lose on the CPU") {
  Scratch scratch;
  if (tested_backend() != "cuda" || !finds_gpu(scratch)) return;
  write_faces(scratch / "faces");
  for (const std::string& file : shipped()) {
    std::ifstream text(file);
    const Json experiment = Json::parse(text);
    if (experiment.value("device", "cpu") != "cpu") continue;
    CAPTURE(file);
    const std::string name = std::filesystem::path(file).stem();
    const std::vector<std::string> options = cut_short(file, experiment, scratch / "faces");
    const Ended on_cpu = run_on("cpu", options, scratch, name);
    const Ended on_gpu = run_on("cuda", options, scratch, name);
    CAPTURE(on_gpu.said);
    REQUIRE(on_cpu.code == 0);
    REQUIRE(on_gpu.code == 0);
    const Json& expected = on_cpu.summary["variants"];
    const Json& variants = on_gpu.summary["variants"];
    for (std::size_t v = 0; v < expected.size(); ++v) {
      CAPTURE(expected[v]["name"].get<std::string>());
      REQUIRE(variants[v]["loss_per_step"].size() == expected[v]["loss_per_step"].size());
      for (std::size_t step = 0; step < expected[v]["loss_per_step"].size(); ++step) {
        if (expected[v]["loss_per_step"][step].is_null()) continue;
        CHECK(variants[v]["loss_per_step"][step].get<double>() ==
              doctest::Approx(expected[v]["loss_per_step"][step].get<double>()).epsilon(1e-3));
      }
    }
  }
}

}  // namespace heddle
