// A broken image in the middle of a training, as a user sees it.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/data/recordio/face_writer.h"
#include "experiments/data/sampler.h"
#include "tests/support/images/drawn_faces.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

constexpr std::int64_t written_images = 12;
constexpr std::int64_t written_batch = 2;
constexpr std::int64_t steps_before = 3;  // the step that needs the broken image

std::int64_t broken_image() {
  return batch_indices(written_images, written_batch, steps_before, RandomKey{1}).front();
}

/// Three people with four images each, of which one may be truncated. Opening the file decodes none of them.
void write_twelve(const std::filesystem::path& file, bool is_broken) {
  FaceWriter writer(file, RecordLayout::plain);
  for (int i = 0; i < written_images; ++i) {
    std::string jpeg = face_as_jpeg(i / 4, i % 4);
    if (is_broken && i == broken_image()) jpeg.resize(jpeg.size() - 12);
    writer.add(i / 4, std::vector<std::uint8_t>(jpeg.begin(), jpeg.end()));
  }
  writer.commit({});
}

/// Writes these images, and an experiment that trains on them, whose file is returned.
std::string experiment_on_twelve(const Scratch& folder, bool is_broken) {
  const std::filesystem::path records = folder / "faces.rec";
  write_twelve(records, is_broken);
  nlohmann::json experiment = nlohmann::json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"dp": 2},
    "data": {"type": "recordio", "image": [1, 8, 8]},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5},
    "head": {"classes": 3}, "train": {"batch": 2, "steps": 12}, "evaluation": null})");
  experiment["data"]["train"] = records.string();
  write_file_atomically(folder / "small.json", experiment.dump());
  return (folder / "small.json").string();
}

}  // namespace

TEST_CASE("a run that meets a broken image saves its work and its summary, and ends with the exit code of wrong data") {
  const Scratch folder;
  const std::filesystem::path records = folder / "faces.rec";
  const std::vector<std::string> run{"run", experiment_on_twelve(folder, true), "--out", (folder / "out").string()};
  std::vector<std::string> with_json = run;
  with_json.emplace_back("--json");

  const Called stopped = call(with_json);
  CHECK(stopped.code == 2);
  const nlohmann::json variant = nlohmann::json::parse(stopped.out)["variants"][0];
  CHECK(variant["status"] == "broken_image");
  CHECK(variant["error"] == "image \"" + records.string() +
                                fmt::format(", record {}\": broken JPEG: Premature end of JPEG file", broken_image()));
  CHECK(variant["loss_per_step"].size() == steps_before);
  CHECK(std::filesystem::exists(folder / "out/checkpoint/small/step-000003"));
  CHECK(nlohmann::json::parse(read_file(folder / "out/summary.json", 1 << 20))["variants"][0] == variant);
  CHECK(stopped.err.find("the checkpoint after 3 steps is saved: repair what the error names or, if it is a training "
                         "image of a .rec, set data.on_broken to skip, and continue with --resume\n") !=
        std::string::npos);
  std::vector<std::string> again = run;
  again.emplace_back("--force");
  const Called table = call(again);
  CHECK(table.code == 2);
  CHECK(table.out.find("small met an image that it cannot use: image") != std::string::npos);

  with_json.emplace_back("--resume");
  CHECK(call(with_json).code == 2);
  write_twelve(records, false);
  const Called resumed = call(with_json);
  CHECK(resumed.code == 0);
  CHECK(resumed.err.find("resuming after step 3\n") != std::string::npos);
}

TEST_CASE("the step of a broken image changes no statistics of a margin") {
  for (const char* const parallel : {"sharded", "replicated"}) {
    CAPTURE(parallel);
    const Scratch folder;
    const std::string head =
        fmt::format(R"(head={{"classes": 3, "parallel": "{}", "margin": {{"type": "adaface"}}}})", parallel);
    std::vector<std::string> run{
        "run", experiment_on_twelve(folder, false), "--out", (folder / "whole").string(), "--set", head, "--json"};
    const auto losses = [](const Called& called) {
      return nlohmann::json::parse(called.out)["variants"][0]["loss_per_step"];
    };
    const Called whole = call(run);
    REQUIRE(whole.code == 0);
    write_twelve(folder / "faces.rec", true);
    run[3] = (folder / "out").string();
    CHECK(call(run).code == 2);
    write_twelve(folder / "faces.rec", false);
    run.emplace_back("--resume");
    CHECK(losses(call(run)) == losses(whole));
  }
}

TEST_CASE("a crop larger than the images ends a run with both sizes, and calls no image broken") {
  const Scratch folder;
  const std::string file = experiment_on_twelve(folder, false);
  for (const std::string on_broken : {"stop", "skip"}) {
    const std::vector<std::string> run{"run",
                                       file,
                                       "--force",
                                       "--out",
                                       (folder / "out").string(),
                                       "--set",
                                       "data.preprocessing.crop=9",
                                       "--set",
                                       "data.on_broken=" + on_broken};
    const Called table = call(run);
    CHECK(table.code == 2);
    CHECK((table.out + table.err).find("broken") == std::string::npos);
    std::vector<std::string> with_json = run;
    with_json.emplace_back("--json");
    CHECK(nlohmann::json::parse(call(with_json).out)["variants"][0]["error"].get<std::string>().ends_with(
        "data.preprocessing.crop of 9 x 9 pixels is larger than the image of 8 x 8"));
  }
}

}  // namespace heddle::test
