// A resumed run needs the images of the run that saved, wherever they lie now.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/recordio/face_writer.h"
#include "experiments/training/run.h"
#include "framework/error.h"
#include "tests/support/images/drawn_faces.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

namespace fs = std::filesystem;

/// Three people with five photographs each, four of which are for training.
Experiment moved_experiment(const fs::path& folder) {
  Experiment experiment;
  experiment.name = "faces";
  experiment.threads = 1;
  experiment.mesh.dp = 2;
  experiment.data.type = DataType::image_folder;
  experiment.data.image_folder.path = folder.string();
  experiment.data.image_folder.image = {1, 8, 8};
  experiment.data.image_folder.train_per_identity = 4;
  experiment.data.image_folder.test_per_identity = 1;
  experiment.model.type = ModelType::mlp;
  experiment.head.classes = 4;
  experiment.train.batch = 4;
  experiment.train.steps = 3;
  return experiment;
}

struct Losses : RunObserver {
  void on_step(const StepRecord& record) override { losses.push_back(record.loss.value()); }
  void on_note(const std::string& note) override { notes.push_back(note); }
  std::vector<double> losses;
  std::vector<std::string> notes;
};

Losses seen_in(const Experiment& experiment, RunSettings settings = {}) {
  Losses seen;
  settings.observer = &seen;
  CHECK(run_variant(experiment, "faces", settings).error.empty());
  return seen;
}

/// A run of three steps has saved; it resumes to six.
class Saved {
 public:
  Saved() {
    write_people(folder_ / "faces", {5, 5, 5});
    (void)seen_in(moved_experiment(folder_ / "faces"), {.checkpoints = folder_ / "saved"});
  }

  fs::path operator/(const char* name) const { return folder_ / name; }
  /// The experiment on data in this folder.
  Experiment resumed(const std::string& folder) const {
    Experiment experiment = moved_experiment(folder);
    experiment.train.steps = 6;
    return experiment;
  }
  RunSettings settings() const {
    fs::remove_all(folder_ / "checkpoints");
    fs::copy(folder_ / "saved", folder_ / "checkpoints", fs::copy_options::recursive);
    return {.checkpoints = folder_ / "checkpoints", .resume = true};
  }
  std::string error(const Experiment& experiment) const {
    return message_of<InputError>([&] { (void)run_variant(experiment, "faces", settings()); });
  }

 private:
  Scratch folder_;
};

/// Images without a checksum, as earlier versions saved them.
class WithoutChecksum final : public Dataset {
 public:
  explicit WithoutChecksum(std::unique_ptr<const Dataset> images)
      : Dataset(images->preprocessing()), images_(std::move(images)) {}
  std::int64_t classes() const override { return images_->classes(); }
  std::int64_t size(Split split) const override { return images_->size(split); }
  std::int64_t label(Split split, std::int64_t index) const override { return images_->label(split, index); }
  std::string sample_name(Split split, std::int64_t index) const override { return images_->sample_name(split, index); }
  void read(Split split, std::int64_t index, std::span<float> pixels) const override {
    images_->read(split, index, pixels);
  }
  bool is_encoded() const override { return true; }

 private:
  std::unique_ptr<const Dataset> images_;
};

}  // namespace

TEST_CASE("a run resumes with its images in another folder, bit for bit and without a note") {
  const Saved saved;
  const fs::path faces = saved / "faces";
  const std::vector<double> whole = seen_in(saved.resumed(faces.string())).losses;
  const std::vector<double> last(whole.begin() + 3, whole.end());
  fs::copy(faces, saved / "moved", fs::copy_options::recursive);
  for (const std::string& folder : {faces.string(), faces.string() + "/", (saved / "moved").string()}) {
    CAPTURE(folder);
    const Losses rest = seen_in(saved.resumed(folder), saved.settings());
    CHECK(rest.losses == last);
    CHECK(rest.notes.empty());
  }
  Experiment skipping = saved.resumed(faces.string());
  skipping.data.image_folder.on_broken = OnBroken::skip;
  CHECK(seen_in(skipping, saved.settings()).losses == last);
}

TEST_CASE("a run does not resume with images of other names or labels") {
  const Saved saved;
  const fs::path faces = saved / "faces";
  const auto is_refused = [&] {
    const std::string error = saved.error(saved.resumed(faces.string()));
    CAPTURE(error);
    CHECK(error.find("step-000003: was saved with other training images, 12 with checksum ") != std::string::npos);
    CHECK(error.ends_with(
        ": a resumed run must keep their names, labels and weights; with a new head, the data may change "
        "(--fresh-head)"));
  };
  write_new_file(faces / "p0/+.jpg", face_as_jpeg(0, 9));  // moves another one into the test set
  is_refused();
  fs::remove(faces / "p0/+.jpg");
  fs::rename(faces / "p0", faces / "z0");  // the others get new labels
  is_refused();
  fs::rename(faces / "z0", faces / "p0");
  fs::create_directory(faces / "a");  // sorts first
  for (int i = 0; i < 5; ++i) write_new_file(faces / fmt::format("a/{}.jpg", i), face_as_jpeg(3, i));
  is_refused();
  fs::remove_all(faces / "a");
  Experiment weighted = saved.resumed(faces.string());
  write_new_file(saved / "weights.txt", "p0\t2\n");
  weighted.data.image_folder.class_weights = (saved / "weights.txt").string();
  CHECK(saved.error(weighted).find("step-000003: was saved with other training images, 12 with checksum ") !=
        std::string::npos);
  (void)seen_in(saved.resumed(faces.string()), saved.settings());
  Experiment other = saved.resumed(faces.string());
  other.data.image_folder.min_images = 2;
  CHECK(saved.error(other).find("was saved by a different experiment (") != std::string::npos);
}

TEST_CASE("a run that resumes with images of other sizes says so") {
  const Saved saved;
  const fs::path faces = saved / "faces";
  write_new_file(faces / "p1/2.jpg", face_as_jpeg(1, 2) + "more");
  CHECK(seen_in(saved.resumed(faces.string()), saved.settings()).notes ==
        std::vector<std::string>{"training images have other sizes in bytes than when the checkpoint was saved"});
}

TEST_CASE("a checkpoint of an earlier version resumes where its images lay") {
  const Saved saved;
  const fs::path faces = saved / "faces";
  const std::vector<double> whole = seen_in(saved.resumed(faces.string())).losses;
  const Experiment first = moved_experiment(faces);
  fs::remove_all(saved / "saved");
  (void)seen_in(first, {.checkpoints = saved / "saved",
                        .dataset = std::make_shared<WithoutChecksum>(make_dataset(first.data, {1}))});
  const Losses rest = seen_in(saved.resumed(faces.string()), saved.settings());
  CHECK(rest.losses == std::vector(whole.begin() + 3, whole.end()));
  CHECK(rest.notes.empty());
  fs::rename(faces, saved / "moved");
  CHECK(saved.error(saved.resumed((saved / "moved").string())).find("different experiment (data.path was ") !=
        std::string::npos);
}

TEST_CASE("a .rec resumes under another name, with the same labels only") {
  const Scratch folder;
  const auto write = [&](const char* name, int of_first) {
    FaceWriter writer(folder / name, RecordLayout::plain);
    for (int i = 0; i < 8; ++i) {
      const std::string jpeg = face_as_jpeg(i / 4, i % 4);
      writer.add(i < of_first ? 0 : 1, std::vector<std::uint8_t>(jpeg.begin(), jpeg.end()));
    }
    writer.commit({});
  };
  write("a.rec", 4);
  write("b.rec", 4);
  write("c.rec", 3);
  Experiment experiment = moved_experiment({});
  experiment.data.type = DataType::recordio;
  experiment.data.recordio.image = {1, 8, 8};
  const auto on = [&](const char* name, std::int64_t steps) {
    experiment.data.recordio.train = (folder / name).string();
    experiment.train.steps = steps;
    return experiment;
  };
  (void)seen_in(on("a.rec", 2), {.checkpoints = folder / "checkpoints"});
  const RunSettings resuming{.checkpoints = folder / "checkpoints", .resume = true};
  CHECK(seen_in(on("b.rec", 3), resuming).notes.empty());
  CHECK(message_of<InputError>([&] {
          (void)run_variant(on("c.rec", 4), "faces", resuming);
        }).find("was saved with other training images, 8 with checksum ") != std::string::npos);
}

}  // namespace heddle::test
