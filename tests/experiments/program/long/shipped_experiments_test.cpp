// The experiments that ship with the program, cut to a few steps: the claims of their documents hold, plan knows their
// bytes, and the process holds little that the meter does not see.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <future>
#include <map>
#include <optional>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/support/compare/close_to.h"
#include "tests/support/program/program.h"
#include "tests/support/program/shipped.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

using Json = nlohmann::json;
using namespace test;

std::int64_t metered(const Json& summary) {
  std::int64_t most = 0;
  for (const Json& variant : summary["variants"]) {
    std::int64_t total = 0;
    for (const Json& rank : variant["ranks"]) total += rank["peak_bytes"]["total"].get<std::int64_t>();
    most = std::max(most, total);
  }
  return most;
}

std::int64_t ranks_of_largest(const Json& summary) {
  std::size_t most = 0;
  for (const Json& variant : summary["variants"]) most = std::max(most, variant["ranks"].size());
  return static_cast<std::int64_t>(most);
}

/// One command among the claims of an experiment: a run, or a plan.
struct Study {
  Json experiment;  // as it ran, with all settings
  Json summary;
  std::optional<ProgramResult> planned;  // if it was a run on the CPU
};

/// A shipped experiment whose claims were checked.
struct Shipped {
  std::string file;
  ProgramResult ended;
  std::vector<Study> studies;
};

Json json_of(const std::filesystem::path& file) {
  std::ifstream text(file);
  return Json::parse(text, nullptr, false);
}

Json claims_of(const std::string& file) {
  return json_of(source_folder() / "experiments/claims" / std::filesystem::path(file).filename());
}

/// Runs the commands of its claims, and plans what they computed.
Shipped reproduced(const std::string& file, const std::filesystem::path& results) {
  const std::string name = std::filesystem::path(file).stem();
  Shipped one{.file = file,
              .ended = run_program({"reproduce", name, "--quick", "--out", results}, results / (name + ".claims"),
                                   source_folder()),
              .studies = {}};
  const Json checks = claims_of(file)["checks"];
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const auto command = checks[i]["command"].get<std::string>();
    if (command.starts_with("schedule ") || checks[i].value("when", "always") == "full") continue;
    const std::filesystem::path folder = results / name / std::to_string(i);
    Study study{
        .experiment = json_of(folder / "experiment.json"), .summary = json_of(folder / "summary.json"), .planned = {}};
    if (command.starts_with("run ") && study.experiment.value("device", "cpu") != "plan")
      study.planned = run_program({"plan", folder / "experiment.json", "--json"}, results / (name + ".plan"));
    one.studies.push_back(std::move(study));
  }
  return one;
}

/// The claims of experiments on photographs cannot be checked, since these do not ship: their files run on noise.
Shipped run_on_noise(const std::string& file, const std::filesystem::path& faces,
                     const std::filesystem::path& results) {
  const Json experiment = json_of(file);
  const std::string name = std::filesystem::path(file).stem();
  const std::vector<std::string> options = cut_short(file, experiment, faces);
  std::vector<std::string> run{"run", "--out", results / name};
  run.insert(run.end(), options.begin(), options.end());
  Shipped one{.file = file, .ended = run_program(run, results / (name + ".run")), .studies = {}};
  std::vector<std::string> plan{"plan"};
  plan.insert(plan.end(), options.begin(), options.end());
  one.studies.push_back({.experiment = experiment,
                         .summary = one.ended.summary,
                         .planned = run_program(plan, results / (name + ".plan"))});
  return one;
}

/// All of them, two at a time: most compute on one core.
std::vector<Shipped> run_shipped(const Scratch& scratch) {
  write_faces(scratch / "faces");
  const std::vector<std::string> files = shipped();
  std::vector<Shipped> all(files.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      all[i] = claims_of(files[i]).contains("needs_data")
                   ? run_on_noise(files[i], scratch / "faces", scratch / "results")
                   : reproduced(files[i], scratch / "results");
    }
  };
  std::filesystem::create_directory(scratch / "results");
  std::future<void> other = std::async(std::launch::async, work);
  work();
  other.get();
  return all;
}

/// That plan gave the bytes which were counted.
void check_planned(const Study& study) {
  REQUIRE(study.planned->code == 0);
  const Json& variants = study.summary["variants"];
  const Json& planned = study.planned->summary["variants"];
  REQUIRE(planned.size() == variants.size());
  for (std::size_t v = 0; v < variants.size(); ++v) {
    CHECK(planned[v]["status"] == "ok");
    if (is_cut_by_time(patched(study.experiment, v))) continue;
    CHECK(planned[v]["sent_in_step"] == variants[v]["sent_in_step"]);
    for (std::size_t rank = 0; rank < variants[v]["ranks"].size(); ++rank)
      for (const char* key : {"peak_bytes", "sent_bytes", "received_bytes"})
        CHECK(planned[v]["ranks"][rank][key] == variants[v]["ranks"][rank][key]);
  }
}

/// That the ranks sent what the formulas say, where they hold.
void check_sent(const Study& study) {
  const Json& variants = study.summary["variants"];
  for (std::size_t v = 0; v < variants.size(); ++v) {
    if (variants[v]["status"] == "out_of_memory" && !study.planned) continue;
    CHECK(variants[v]["status"] == "ok");
    const Json variant = patched(study.experiment, v);
    if (is_cut_by_time(variant)) continue;
    const Json& sent = variants[v]["sent_in_step"];
    // The formula is that of a training step which computes everything once.
    const bool is_formulated = (variants[v]["recompute"].is_null() || variants[v]["recompute"] == "never") &&
                               variant.value("/pipeline/recompute"_json_pointer, "never") == "never" &&
                               (variant["head"].is_array() || variant["head"].value("loss_every", 1) == 1);
    CHECK(sent.is_null() == (variants[v]["ranks"].size() == 1 || !is_formulated));
    if (!sent.is_null()) CHECK(sent["counted"] == sent["formula"]["total"]);
  }
}

}  // namespace

TEST_CASE(
    "claims of shipped experiments hold; plan gives their bytes; resident memory stays close to the metered memory") {
  Scratch scratch;
  for (const Shipped& one : run_shipped(scratch)) {
    CAPTURE(one.file);
    CAPTURE(one.ended.err);
    REQUIRE(one.ended.code == 0);
    REQUIRE(!one.studies.empty());
    std::int64_t most = 0;
    std::int64_t ranks = 0;
    // What is only planned takes no memory.
    const bool computes = std::any_of(one.studies.begin(), one.studies.end(),
                                      [](const Study& study) { return study.planned.has_value(); });
    for (const Study& study : one.studies) {
      if (study.planned || !computes) most = std::max(most, metered(study.summary));
      ranks = std::max(ranks, ranks_of_largest(study.summary));
      check_sent(study);
      if (study.planned) check_planned(study);
    }
    constexpr std::int64_t slack = 1 << 20;  // between one look at this process and the other
    // What every rank has beside its tensors: kernels, stacks, rounding to pages.
    const std::int64_t beside = 110'000'000 + 20'000'000 * ranks;
    CHECK(one.ended.resident_bytes <= std::max(most * 105 / 100 + beside, one.ended.inherited_bytes + slack));
  }
}

TEST_CASE("the first loss of a head is what random weights must give") {
  Scratch scratch;
  const std::string file = experiment_file("ten_million");
  const Json experiment = json_of(file);
  constexpr double classes = 200'000;
  const ProgramResult ran = run_program({"run", file, "--json", "--set", "head.classes=200000", "--set",
                                         "train.steps=1", "--out", (scratch / "out").string()},
                                        scratch / "run.json");
  REQUIRE(ran.code == 0);
  // A cosine of random directions in d dimensions is nearly normal with variance 1/d: ln of the mean of exp(s cos) is
  // s^2 / 2d; the target's angle is nearly a right one.
  const double scale = experiment["head"]["margin"]["scale"];
  const double margin = experiment["head"]["margin"]["m2"];
  constexpr double dimension = 512;
  const double expected = std::log(classes) + scale * scale / (2 * dimension) + scale * std::sin(margin);
  CHECK(ran.summary["variants"][0]["loss"]["first"].get<double>() == close_to(expected).epsilon(0.01));
}

TEST_CASE("layers placed in other ways train as their serial reference at every step") {
  Scratch scratch;
  for (const char* name : {"chains", "three_convolutions"}) {
    CAPTURE(name);
    const std::string file = experiment_file(name);
    const ProgramResult ran =
        run_program({"run", file, "--json", "--out", (scratch / name).string()}, scratch / "run.json");
    REQUIRE(ran.code == 0);
    const Json& variants = ran.summary["variants"];
    REQUIRE(variants.size() == 4);
    for (std::size_t v = 1; v < variants.size(); ++v)
      for (std::size_t step = 0; step < variants[0]["loss_per_step"].size(); ++step)
        CHECK(variants[v]["loss_per_step"][step].get<double>() ==
              close_to(variants[0]["loss_per_step"][step].get<double>()).epsilon(2e-5));
  }
}

TEST_CASE("features are cheaper to move than weights until the batch is as large as the layer is wide") {
  Scratch scratch;
  const ProgramResult planned = run_program({"plan", experiment_file("volumes"), "--json"}, scratch / "plan.json");
  REQUIRE(planned.code == 0);
  std::map<std::string, double> sent;
  for (const Json& variant : planned.summary["variants"])
    sent[variant["name"].get<std::string>()] = variant["sent_in_step"]["counted"].get<double>();
  CHECK(sent.at("4096 x 1024 tensor") < sent.at("4096 x 1024 data"));
  CHECK(sent.at("4096 x 4096 tensor") == close_to(sent.at("4096 x 4096 data")).epsilon(1e-3));
  CHECK(sent.at("4096 x 16384 tensor") > sent.at("4096 x 16384 data"));
  for (const char* batch : {"1024", "4096", "16384"}) {
    CHECK(sent.at(fmt::format("256 x {} tensor", batch)) > sent.at(fmt::format("256 x {} data", batch)));
    CHECK(sent.at(fmt::format("1M x {} tensor", batch)) < 0.03 * sent.at(fmt::format("1M x {} data", batch)));
  }
}

TEST_CASE("the quickstart's variants agree to 2e-5 at every step, and only with gathered logits rank 0 holds more") {
  Scratch scratch;
  const ProgramResult ran = run_program(
      {"run", experiment_file("quickstart"), "--json", "--set", "train.steps=10", "--out", (scratch / "out").string()},
      scratch / "run.json");
  REQUIRE(ran.code == 0);
  const Json& variants = ran.summary["variants"];
  for (std::size_t v = 1; v < 3; ++v)
    for (std::size_t step = 0; step < variants[0]["loss_per_step"].size(); ++step)
      CHECK(variants[v]["loss_per_step"][step].get<double>() ==
            close_to(variants[0]["loss_per_step"][step].get<double>()).epsilon(2e-5));
  const auto peak = [&](std::size_t variant, std::size_t rank) {
    return variants[variant]["ranks"][rank]["peak_bytes"]["total"].get<double>();
  };
  CHECK(peak(1, 0) > 2 * peak(1, 1));
  CHECK(peak(2, 0) < 1.01 * peak(2, 1));
}

}  // namespace heddle::test
