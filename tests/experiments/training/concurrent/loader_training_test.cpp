#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/training/run.h"
#include "framework/error.h"
#include "tests/support/devices.h"
#include "tests/support/images/image_files.h"

namespace heddle::test::loader_training_test {

namespace {

/// Five photographs of each of five people, as ORL's folders have them.
void write_faces(const WrittenImages& files) {
  for (int person = 0; person < 5; ++person)
    for (int image = 0; image < 5; ++image) {
      std::string pixels;
      for (int i = 0; i < 12 * 10; ++i) pixels += static_cast<char>(40 * person + i * (person + 2) % 37 + 3 * image);
      files.write("s" + std::to_string(person + 1) + "/" + std::to_string(image + 1) + ".pgm",
                  "P5 10 12 255\n" + pixels);
    }
}

Experiment faces_experiment(const WrittenImages& files) {
  Experiment experiment;
  experiment.name = "faces";
  experiment.threads = 1;
  experiment.data.type = DataType::image_folder;
  experiment.data.image_folder.path = files.path();
  experiment.data.image_folder.image = {1, 8, 8};
  experiment.data.image_folder.train_per_identity = 4;
  experiment.data.augmentation = {.flip = 0.5, .shift = 1, .brightness = 0.1};
  experiment.model.type = ModelType::mlp;
  experiment.head.classes = 5;
  experiment.train.batch = 12;
  experiment.train.micro_batches = 2;
  experiment.train.steps = 7;
  return experiment;
}

std::vector<double> losses_of(const Experiment& experiment, const RunSettings& settings = {}) {
  const VariantResult result = run_variant(experiment, "faces", settings);
  CHECK(result.error.empty());
  std::vector<double> losses;
  for (const StepRecord& record : result.steps) {
    losses.push_back(record.loss.value());
    CHECK(record.loader_wait.value() >= 0);
    if (experiment.clock == ClockType::wall) CHECK(record.loader_wait.value() <= record.seconds);
  }
  return losses;
}

}  // namespace

TEST_CASE("losses are equal with and without threads that read ahead, on each mesh, schedule and clock") {
  const WrittenImages files;
  write_faces(files);
  Experiment experiment = faces_experiment(files);
  const auto check_loaders = [&] {
    experiment.data.loader = {.threads = 0, .prefetch = 0};
    const std::vector<double> expected = losses_of(experiment);
    REQUIRE(expected.size() == 7);
    for (const LoaderConfig& loader :
         {LoaderConfig{1, 2}, LoaderConfig{3, 2}, LoaderConfig{2, 1}, LoaderConfig{0, 5}}) {
      if (is_sanitized && loader.threads < 2) continue;
      CAPTURE(loader.threads);
      experiment.data.loader = loader;
      CHECK(losses_of(experiment) == expected);
    }
  };
  for (const std::int64_t dp : {1, 2}) {
    experiment.mesh.dp = dp;
    check_loaders();
  }
  experiment.mesh = {.dp = 1, .pp = 2, .tp = 1};
  experiment.pipeline.schedule = "gpipe";
  check_loaders();
  experiment.mesh = {.dp = 2, .pp = 1, .tp = 1};
  experiment.clock = ClockType::virtual_time;
  check_loaders();
}

TEST_CASE(
    "photographs of one data set beside synthetic faces of another give the same losses with and without a loader") {
  const WrittenImages files;
  write_faces(files);
  Experiment experiment = faces_experiment(files);
  experiment.data.name = "photographs";
  experiment.data.share = 2;
  DataConfig& drawn = experiment.further_data.emplace_back();
  drawn.name = "drawn";
  drawn.synthetic_identities = {.identities = 3, .image = {1, 8, 8}, .train_per_identity = 4};
  drawn.augmentation = {.flip = 0.5};
  experiment.further_heads.push_back(experiment.head);
  const auto with = [&](const LoaderConfig& loader, std::int64_t dp) {
    experiment.data.loader = drawn.loader = loader;
    experiment.mesh.dp = dp;
    return losses_of(experiment);
  };
  for (const std::int64_t dp : {1, 2}) {
    const std::vector<double> expected = with({0, 0}, dp);
    REQUIRE(expected.size() == 7);
    CHECK(with({1, 2}, dp) == expected);
    CHECK(with({3, 1}, dp) == expected);
  }
  // A remark of either set names it.
  experiment.data.image_folder.min_images = 3;
  files.write("s6/1.pgm", "P5 1 1 255\n0");
  struct Notes : RunObserver {
    void on_note(const std::string& note) override { all += note + "\n"; }
    std::string all;
  } notes;
  (void)losses_of(experiment, {.observer = &notes});
  CHECK(notes.all.starts_with("photographs: "));
}

TEST_CASE("a run that resumes within an epoch reads the images that follow, with another loader, too") {
  const WrittenImages files;
  write_faces(files);
  Experiment experiment = faces_experiment(files);
  const std::vector<double> whole = losses_of(experiment);
  const Scratch scratch;
  RunSettings settings{.checkpoints = scratch / "checkpoint"};
  experiment.train.steps = 3;
  (void)losses_of(experiment, settings);
  experiment.train.steps = 7;
  experiment.data.loader = {.threads = 3, .prefetch = 4};
  settings.resume = true;
  CHECK(losses_of(experiment, settings) == std::vector(whole.begin() + 3, whole.end()));
}

TEST_CASE("a broken image ends the run with the same error, whichever thread decodes it") {
  const WrittenImages files;
  write_faces(files);
  Experiment experiment = faces_experiment(files);
  RunSettings settings;
  settings.dataset = make_dataset(experiment.data, {1});
  for (int person = 1; person <= 5; ++person)
    for (int image = 1; image <= 5; ++image)
      files.write("s" + std::to_string(person) + "/" + std::to_string(image) + ".pgm", "");
  for (const std::int64_t dp : {1, 2})
    for (const LoaderConfig& loader : {LoaderConfig{0, 0}, LoaderConfig{1, 2}, LoaderConfig{3, 2}}) {
      experiment.mesh.dp = dp;
      experiment.data.loader = loader;
      const VariantResult result = run_variant(experiment, "faces", settings);
      CHECK(result.status == VariantResult::Status::broken_image);
      CHECK(result.steps.empty());
      CHECK(result.error.starts_with("image \"" + files.path("s")));
      CHECK(result.error.ends_with(".pgm\": the file is empty"));
    }
}

}  // namespace heddle::test::loader_training_test
