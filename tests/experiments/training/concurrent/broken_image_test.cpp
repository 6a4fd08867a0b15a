// Images that turn out to be broken in the middle of a training.
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/recordio/face_writer.h"
#include "experiments/data/sampler.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/run.h"
#include "framework/error.h"
#include "tests/support/devices.h"
#include "tests/support/images/drawn_faces.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/results/losses.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

constexpr std::int64_t batch = 4;
constexpr std::int64_t steps = 8;
/// The step that first needs the image that breaks: within the first epoch, which has 5 steps.
constexpr std::int64_t broken_step = 3;

/// Five people with four training images each, of which one can be broken after the data were opened.
class Faces {
 public:
  Faces() {
    write_people(folder_ / "faces", {5, 5, 5, 5, 5});
    experiment_.name = "faces";
    experiment_.threads = 1;
    experiment_.data.type = DataType::image_folder;
    experiment_.data.image_folder.path = (folder_ / "faces").string();
    experiment_.data.image_folder.image = {1, 8, 8};
    experiment_.data.image_folder.train_per_identity = 4;
    experiment_.model.type = ModelType::mlp;
    experiment_.head.classes = 5;
    experiment_.train.batch = batch;
    experiment_.train.steps = steps;
    dataset_ = make_dataset(experiment_.data, {1});
    const RandomKey key{static_cast<std::uint64_t>(experiment_.seed)};
    file_ =
        dataset_->sample_name(Split::train, batch_indices(dataset_->size(Split::train), batch, broken_step, key).at(2));
    sound_ = read_file(file_, 1 << 20);
  }

  const Experiment& experiment() const { return experiment_; }
  RunSettings settings() const { return {.checkpoints = checkpoints(), .dataset = dataset_}; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  void truncate() const { write_file_atomically(file_, sound_.substr(0, sound_.size() - 12)); }
  void remove() const { std::filesystem::remove(file_); }
  const std::string& file() const { return file_; }
  void repair() const { write_file_atomically(file_, sound_); }
  std::string error() const { return "image \"" + file_ + "\": broken JPEG: Premature end of JPEG file"; }

 private:
  Scratch folder_;
  Experiment experiment_;
  std::shared_ptr<const Dataset> dataset_;
  std::string file_;
  std::string sound_;
};

/// Does something when a step is done.
struct AfterStep : RunObserver {
  explicit AfterStep(std::function<void(std::int64_t)> f) : after(std::move(f)) {}
  void on_step(const StepRecord& record) override { after(record.step + 1); }
  std::function<void(std::int64_t)> after;
};

/// A layout, and what else decides when a step changes the weights.
struct BreakingWay {
  const char* name;
  MeshConfig mesh;
  std::int64_t micro_batches;
  bool has_gradient_clipping = false;
};
const std::array<BreakingWay, 6> breaking_ways{{{"serial", {}, 1},
                                                {"dp, head early", {.dp = 2}, 1},
                                                {"dp, head late", {.dp = 2}, 1, true},
                                                {"micro-batches", {.dp = 2}, 2},
                                                {"tp", {.tp = 2}, 1},
                                                {"pp", {.pp = 2}, 2}}};

}  // namespace

TEST_CASE(
    "a JPEG that is found truncated in training ends the run, which saves its work and resumes to the same bits") {
  const Faces faces;
  for (const BreakingWay& way : breaking_ways)
    for (const LoaderConfig& loader : {LoaderConfig{0, 0}, LoaderConfig{2, 2}}) {
      if (is_sanitized && loader.threads == 0 && way.mesh.pp == 1) continue;
      CAPTURE(way.name);
      CAPTURE(loader.prefetch);
      Experiment experiment = faces.experiment();
      experiment.mesh = way.mesh;
      experiment.pipeline.schedule = "gpipe";
      experiment.train.micro_batches = way.micro_batches;
      experiment.train.clip.norm = way.has_gradient_clipping ? 0.5 : 0;
      experiment.data.loader = loader;
      const std::vector<double> whole = losses_in(run_variant(experiment, "faces", faces.settings()));
      REQUIRE(whole.size() == steps);

      faces.truncate();
      const VariantResult stopped = run_variant(experiment, "faces", faces.settings());
      CHECK(stopped.status == VariantResult::Status::broken_image);
      CHECK(stopped.error == faces.error());
      CHECK(losses_in(stopped) == std::vector(whole.begin(), whole.begin() + broken_step));
      CHECK(latest_in(faces.checkpoints()) == broken_step);
      RunSettings resumed = faces.settings();
      resumed.resume = true;
      CHECK(run_variant(experiment, "faces", resumed).error == faces.error());
      CHECK(latest_in(faces.checkpoints()) == broken_step);

      faces.repair();
      const VariantResult rest = run_variant(experiment, "faces", resumed);
      CHECK(rest.error.empty());
      CHECK(losses_in(rest) == std::vector(whole.begin() + broken_step, whole.end()));
    }
}

TEST_CASE("all processes of a job end at an image that is broken for one of them") {
  for (const Connection connection : {Connection::memory, Connection::sockets})
    for (const MeshConfig& mesh : {MeshConfig{.dp = 2}, MeshConfig{.pp = 2}}) {
      const Faces faces;
      faces.truncate();
      Experiment experiment = faces.experiment();
      experiment.mesh = mesh;
      experiment.pipeline.schedule = "gpipe";
      experiment.train.micro_batches = mesh.pp;
      experiment.transport = "processes";
      std::array<VariantResult, 2> results;
      in_processes(
          2,
          [&](Job& own) {
            RunSettings settings = faces.settings();
            settings.job = &own;
            results.at(static_cast<std::size_t>(own.rank())) = run_variant(experiment, "faces", settings);
          },
          connection);
      for (const VariantResult& result : results) {
        CHECK(result.status == VariantResult::Status::broken_image);
        CHECK(result.error == faces.error());
      }
      CHECK(results[0].steps.size() == broken_step);
      CHECK(latest_in(faces.checkpoints()) == broken_step);
    }
}

TEST_CASE("an image that is deleted, and a .rec that is cut off, end a training as a broken image does") {
  const Faces faces;
  Experiment experiment = faces.experiment();
  experiment.mesh.dp = 2;
  faces.remove();
  const VariantResult deleted = run_variant(experiment, "faces", faces.settings());
  CHECK(deleted.status == VariantResult::Status::broken_image);
  CHECK(deleted.error == "image \"" + faces.file() + "\": no such file");
  CHECK(latest_in(faces.checkpoints()) == broken_step);

  const Scratch folder;
  const std::string records = (folder / "faces.rec").string();
  FaceWriter writer(records, RecordLayout::plain);
  for (int i = 0; i < 8; ++i) {
    const std::string jpeg = face_as_jpeg(i / 4, i % 4);
    writer.add(i / 4, std::vector<std::uint8_t>(jpeg.begin(), jpeg.end()));
  }
  writer.commit({});
  experiment.mesh.dp = 1;  // no other rank reads while the file becomes shorter
  experiment.data = {};
  experiment.data.type = DataType::recordio;
  experiment.data.recordio.train = records;
  experiment.data.recordio.image = {1, 8, 8};
  const std::shared_ptr<const Dataset> dataset = make_dataset(experiment.data, {1});
  AfterStep cut_off([&](std::int64_t steps_done) {
    if (steps_done == 2) std::filesystem::resize_file(records, 100);
  });
  experiment.data.loader.prefetch = 0;
  const VariantResult cut = run_variant(
      experiment, "faces", {.checkpoints = folder / "checkpoints", .dataset = dataset, .observer = &cut_off});
  CHECK(cut.status == VariantResult::Status::broken_image);
  CHECK(cut.error.starts_with(records + ", record "));
  CHECK(cut.error.find(": the file has 100 bytes, ") != std::string::npos);
  CHECK(cut.error.ends_with(" fewer than when it was opened"));
  CHECK(cut.steps.size() == 2);
  CHECK(latest_in(folder / "checkpoints") == 2);
}

TEST_CASE("a broken image of the second of two data sets changes neither head") {
  const Faces faces;
  Experiment experiment = faces.experiment();
  experiment.data.name = "first";
  experiment.further_data = {experiment.data};
  experiment.further_data[0].name = "second";
  experiment.further_heads = {experiment.head};
  RunSettings settings = faces.settings();
  settings.dataset = nullptr;
  for (const MeshConfig& mesh : {MeshConfig{.dp = 2}, MeshConfig{.pp = 2}}) {
    experiment.mesh = mesh;
    const std::vector<double> whole = losses_in(run_variant(experiment, "faces", settings));
    settings.dataset = open_datasets(experiment);
    faces.truncate();
    const VariantResult stopped = run_variant(experiment, "faces", settings);
    CHECK(stopped.status == VariantResult::Status::broken_image);
    CHECK(stopped.error == faces.error());
    const std::size_t done = stopped.steps.size();
    REQUIRE(done > 0);
    REQUIRE(done < whole.size());
    faces.repair();
    settings.resume = true;
    const VariantResult rest = run_variant(experiment, "faces", settings);
    CHECK(rest.error.empty());
    CHECK(losses_in(rest) == std::vector(whole.begin() + static_cast<std::ptrdiff_t>(done), whole.end()));
    settings.resume = false;
    settings.dataset = nullptr;
  }
}

TEST_CASE("a broken image of the first step, or of forward passes alone, leaves no checkpoint") {
  const Faces faces;
  faces.truncate();
  Experiment experiment = faces.experiment();
  experiment.mesh.dp = 2;
  experiment.train.batch = 20;
  const VariantResult result = run_variant(experiment, "faces", faces.settings());
  CHECK(result.status == VariantResult::Status::broken_image);
  CHECK(result.error == faces.error());
  CHECK_FALSE(latest_in(faces.checkpoints()).has_value());
  experiment.train.forward_only = true;
  CHECK_THROWS_WITH_AS(run_variant(experiment, "faces", faces.settings()), faces.error().c_str(), InputError);
}

}  // namespace heddle::test
