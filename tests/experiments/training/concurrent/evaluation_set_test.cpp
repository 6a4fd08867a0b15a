// Evaluation sets of a run, from their files to the results.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/image.h"
#include "experiments/training/evaluation/image_source.h"
#include "experiments/training/run.h"
#include "framework/files/atomic_file.h"
#include "framework/scalars/random.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/images/drawn_faces.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::evaluation_set_test {

namespace {

Experiment small_run() {
  Experiment experiment;
  experiment.name = "small";
  experiment.threads = 1;
  experiment.data.synthetic_identities = {
      .identities = 10, .image = {3, 16, 16}, .train_per_identity = 4, .test_per_identity = 4};
  experiment.model.type = ModelType::mlp;
  experiment.model.hidden = {32};
  experiment.model.embedding = 16;
  experiment.head.classes = 10;
  experiment.train.batch = 20;
  experiment.train.steps = 8;
  experiment.train.optimizer.learning_rate = 0.05;
  experiment.evaluate = true;
  return experiment;
}

/// A colour image of noise around a person's own pattern.
std::string face(std::uint64_t person, std::uint64_t photograph) {
  RandomStream pattern({1}, Purpose::evaluation_pairs, 1, person);
  RandomStream noise({2}, Purpose::evaluation_pairs, person, photograph);
  std::string text = "P6 20 20 255\n";
  for (int i = 0; i < 1200; ++i) text += static_cast<char>(pattern.below(200) + noise.below(56));
  return text;
}

std::string little_endian(std::size_t value) {
  std::string text;
  for (int i = 0; i < 4; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// Forty pairs of faces in a folder, by PLSC's list, and the same in one pickle.
class FaceFiles {
 public:
  FaceFiles() {
    std::string list;
    std::string images = "\x80\x03](";
    std::string labels = "](";
    for (std::uint64_t i = 0; i < 40; ++i) {
      const bool same = i % 2 == 0;
      const std::string names[] = {fmt::format("{}_a.ppm", i), fmt::format("{}_b.ppm", i)};
      const std::string faces[] = {face(i, 0), face(same ? i : i + 100, 1)};
      for (int k = 0; k < 2; ++k) {
        write_file_atomically(folder_ / names[k].c_str(), faces[k]);
        images += "B" + little_endian(faces[k].size()) + faces[k];
      }
      list += fmt::format("{}\t{}\t{}\n", names[0], names[1], same ? 1 : 0);
      labels += same ? '\x88' : '\x89';
    }
    write_file_atomically(folder_ / "pairs.txt", list);
    write_file_atomically(folder_ / "faces.bin", images + "e" + labels + "e\x86.");
  }

  EvaluationSetConfig pairs(const std::string& name) const {
    return {.name = name,
            .type = EvaluationSetType::pairs,
            .path = (folder_ / "").string(),
            .list = (folder_ / "pairs.txt").string()};
  }
  EvaluationSetConfig bin(const std::string& name) const {
    return {.name = name, .type = EvaluationSetType::bin, .path = (folder_ / "faces.bin").string()};
  }
  const Scratch& folder() const { return folder_; }

 private:
  Scratch folder_;
};

EvaluationSetConfig drawn(const std::string& name) {
  return {.name = name, .type = EvaluationSetType::drawn};
}

class Steps final : public RunObserver {
 public:
  void on_step(const StepRecord& record) override { records.push_back(record); }
  std::vector<StepRecord> records;
};

}  // namespace

TEST_CASE("a folder with a list and a .bin of the same images give the same results, on one rank and on two") {
  const FaceFiles files;
  Experiment experiment = small_run();
  experiment.evaluation.sets = {files.pairs("folder"), files.bin("pickle"), drawn("drawn")};
  experiment.evaluation.sets[1].threshold_from = "folder";
  const VariantResult result = run_variant(experiment, "base");
  REQUIRE(result.evaluation);
  const std::vector<EvaluatedSet>& sets = result.evaluation->sets;
  REQUIRE(sets.size() == 3);
  const VerifiedSet& first = sets[0].verified.value();
  const VerifiedSet& second = sets[1].verified.value();
  CHECK(first.verification.pairs == 40);
  CHECK(first.genuine == 20);
  CHECK(first.impostors == 20);
  CHECK(first.verification.folds == 10);
  CHECK(first.roc.area > 0.6);  // guessing would give 0.5
  CHECK(first.verification.tar_at_far.size() == 1);
  CHECK(second.roc.area == first.roc.area);
  CHECK(second.best_threshold == first.best_threshold);
  CHECK(second.verification.threshold == first.best_threshold);
  CHECK(second.verification.accuracy >= first.verification.accuracy);
  CHECK(sets[2].verified->verification.pairs == 120);  // 10 people with 4 images each have 60 genuine pairs

  experiment.mesh.dp = 2;
  const VariantResult two = run_variant(experiment, "base");
  REQUIRE(two.evaluation);
  CHECK(two.evaluation->sets[0].verified->roc.area == close_to(first.roc.area).epsilon(1e-3));
}

TEST_CASE("templates of one image give the results of their images, and probes that are in the gallery are found") {
  const FaceFiles files;
  std::string templates;
  std::string pairs;
  std::string gallery;
  std::string others;
  for (int i = 0; i < 40; ++i) {
    templates += fmt::format("{0}_a.ppm {1} {1}\n{0}_b.ppm {2} {2}\n", i, 100 + 2 * i, 101 + 2 * i);
    pairs += fmt::format("{} {} {}\n", 100 + 2 * i, 101 + 2 * i, i % 2 == 0 ? 1 : 0);
    (i < 20 ? gallery : others) += fmt::format("{}_a.ppm{}\n", i, i < 20 ? fmt::format("\tperson {}", i) : "");
  }
  const auto written = [&](const char* name, const std::string& text) {
    write_file_atomically(files.folder() / name, text);
    return (files.folder() / name).string();
  };
  EvaluationSetConfig grouped = files.pairs("templates");
  grouped.type = EvaluationSetType::templates;
  grouped.templates = written("templates.txt", templates);
  grouped.list = written("template_pairs.txt", pairs);
  EvaluationSetConfig probed = files.pairs("identification");
  probed.type = EvaluationSetType::identification;
  probed.gallery = written("gallery.txt", gallery);
  probed.distractors = written("distractors.txt", others);
  probed.probes = written("probes.txt", gallery + "20_b.ppm\tsomebody else\n");

  Experiment experiment = small_run();
  experiment.evaluation.sets = {files.pairs("images"), grouped, probed};
  const VariantResult result = run_variant(experiment, "base");
  REQUIRE(result.evaluation);
  const std::vector<EvaluatedSet>& sets = result.evaluation->sets;
  REQUIRE(sets.size() == 3);
  CHECK(sets[1].verified->verification.pairs == 40);
  CHECK(sets[1].verified->roc.area == close_to(sets[0].verified->roc.area).epsilon(0.01));
  const Identification& found = sets[2].identified.value();
  CHECK(found.gallery == 40);
  CHECK(found.distractors == 20);
  CHECK(found.known == 20);
  CHECK(found.unknown == 1);
  CHECK(found.rates[0] == 1);
  CHECK(sets[2].accuracy() == 1);

  probed.probes = written("probes.txt", "20_b.ppm\tsomebody else\n");
  experiment.evaluation.sets = {probed};
  CHECK(message_of<InputError>([&] { (void)run_variant(experiment, "base"); }) ==
        fmt::format("evaluation.sets[0] \"identification\": {}: none of 1 probes shows a person in {}", probed.probes,
                    probed.gallery));
}

TEST_CASE("evaluations during training change no loss, are recorded at their steps, and keep the best checkpoint") {
  const FaceFiles files;
  Experiment experiment = small_run();
  experiment.mesh.dp = 2;
  Steps plain;
  (void)run_variant(experiment, "base", {.observer = &plain});

  experiment.evaluation.sets = {drawn("drawn"), files.bin("faces")};
  experiment.evaluation.every = 3;
  experiment.evaluation.keep_best = true;
  const Scratch folder;
  Steps steps;
  const VariantResult result =
      run_variant(experiment, "base", {.checkpoints = folder / "checkpoint", .observer = &steps});
  REQUIRE(steps.records.size() == 8);
  std::optional<BestCheckpoint> best;
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(steps.records[i].loss == plain.records[i].loss);
    const auto& accuracies = steps.records[i].accuracies;
    CHECK(accuracies.size() == (i == 2 || i == 5 ? 2U : 0U));
    if (accuracies.empty()) continue;
    CHECK(accuracies[0].first == "drawn");
    CHECK(accuracies[1].first == "faces");
    if (!best || accuracies[0].second > best->accuracy)
      best = BestCheckpoint{static_cast<std::int64_t>(i) + 1, accuracies[0].second};
  }
  REQUIRE(best);
  REQUIRE(result.evaluation);
  if (const double last = result.evaluation->sets[0].accuracy(); last > best->accuracy) best = BestCheckpoint{8, last};
  REQUIRE(result.evaluation->best);
  CHECK(result.evaluation->best->steps == best->steps);
  CHECK(result.evaluation->best->accuracy == best->accuracy);
  const CheckpointFolder kept(folder / "checkpoint/best");
  CHECK(kept.latest() == best->steps);
  CHECK(kept.number(best->steps, "accuracy on drawn") == best->accuracy);
  CHECK(CheckpointFolder(folder / "checkpoint").latest() == 8);

  // A resumed run compares with the checkpoint that was kept before.
  experiment.train.steps = 9;
  const VariantResult longer = run_variant(experiment, "base", {.checkpoints = folder / "checkpoint", .resume = true});
  REQUIRE(longer.evaluation);
  REQUIRE(longer.evaluation->best);
  CHECK(longer.evaluation->best->accuracy >= best->accuracy);
  // A new run does not.
  experiment.train.steps = 1;
  (void)run_variant(experiment, "base", {.checkpoints = folder / "checkpoint"});
  CHECK(kept.latest() == 1);  // it was evaluated after its last step
  // One that cannot be read does not keep the run from being resumed.
  std::filesystem::remove(folder / "checkpoint/best/step-000001/rank-0.safetensors");
  experiment.train.steps = 2;
  const VariantResult last = run_variant(experiment, "base", {.checkpoints = folder / "checkpoint", .resume = true});
  CHECK(last.status == VariantResult::Status::ok);
  CHECK(last.evaluation->best->steps == 2);
}

TEST_CASE("sets that cannot be used are refused before the first step, with their files") {
  const FaceFiles files;
  Experiment experiment = small_run();
  const auto refused = [&](const std::vector<EvaluationSetConfig>& sets) {
    experiment.evaluation.sets = sets;
    return message_of<InputError>([&] { (void)run_variant(experiment, "base"); });
  };
  EvaluationSetConfig other = files.pairs("b");
  other.threshold_from = "c";
  CHECK(refused({files.pairs("a"), other}) == "evaluation: sets[1].threshold_from: there is no set \"c\"");
  other.threshold_from = "b";
  CHECK(refused({other}) == "evaluation: sets[0].threshold_from: expected another set than \"b\"");
  CHECK(refused({files.pairs("a"), drawn("a")}) == "evaluation: sets[0].name: two sets are named \"a\"");
  CHECK(refused({drawn("")}) == "evaluation: sets[0].name: expected a name, got \"\"");

  write_file_atomically(files.folder() / "one.txt", "0_a.ppm\t0_b.ppm\t1\n1_a.ppm\t1_b.ppm\t0\n");
  other = files.pairs("one");
  other.list = (files.folder() / "one.txt").string();
  CHECK(refused({other}) ==
        "evaluation.sets[0] \"one\": expected at least 2 pairs of one person and 2 of two, got 1 and 1");
  write_file_atomically(files.folder() / "0_a.ppm", "no image");
  CHECK(
      refused({files.pairs("a")})
          .starts_with(fmt::format("evaluation.sets[0] \"a\": image \"{}\": ", (files.folder() / "0_a.ppm").string())));
  const std::filesystem::path damaged = files.folder() / "faces.bin";
  std::string pickle = read_file(damaged, 1 << 20);
  pickle[pickle.find("P6 20", 1000)] = 'X';
  write_file_atomically(damaged, pickle);
  CHECK(refused({drawn("d"), files.bin("a")})
            .starts_with(fmt::format("evaluation.sets[1] \"a\": image \"{}, image 1\": ", damaged.string())));

  experiment = small_run();
  experiment.evaluation.every = 2;
  CHECK(refused({}) == "evaluation: every: expected sets to evaluate, in evaluation.sets");
  experiment.evaluation.every = 0;
  experiment.evaluation.keep_best = true;
  CHECK(refused({drawn("a")}) == "evaluation: keep_best: expected evaluation.every, the steps between evaluations");
}

TEST_CASE("an image of a set that is gone in a later evaluation ends the run, whose steps are saved") {
  struct RemovesAfterFirst : RunObserver {
    void on_step(const StepRecord& /*record*/) override { std::filesystem::remove(file); }
    std::filesystem::path file;
  };
  for (const int dp : {1, 2}) {
    const FaceFiles files;
    const Scratch folder;
    RemovesAfterFirst observer;
    observer.file = files.folder() / "0_a.ppm";
    Experiment experiment = small_run();
    experiment.mesh.dp = dp;
    experiment.evaluation.sets = {files.pairs("a")};
    experiment.evaluation.every = 1;
    const VariantResult result =
        run_variant(experiment, "base", {.checkpoints = folder / "checkpoint", .observer = &observer});
    CHECK(result.status == VariantResult::Status::broken_image);
    CHECK(result.error == fmt::format("image \"{}\": no such file", observer.file.string()));
    CHECK(result.steps.size() == 2);
    CHECK(CheckpointFolder(folder / "checkpoint").latest() == 2);
  }
}

TEST_CASE("a plan sends as much for its sets as the run does") {
  Experiment experiment = small_run();
  experiment.mesh.dp = 2;
  experiment.evaluation.sets = {drawn("drawn")};
  experiment.evaluation.every = 3;
  const VariantResult run = run_variant(experiment, "base");
  experiment.device = DeviceType::plan;
  const VariantResult plan = run_variant(experiment, "base");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(plan.ranks[rank].sent_bytes == run.ranks[rank].sent_bytes);
    CHECK(plan.ranks[rank].received_bytes == run.ranks[rank].received_bytes);
  }
}

TEST_CASE("images of sets are prepared as those of the training, by a JPEG decoder that shrinks them, too") {
  const Scratch folder;
  write_file_atomically(folder / "a.jpg", face_as_jpeg(1, 2));
  const ImageShape shape{1, 2, 2};  // of 8 x 8
  for (const bool scaled : {true, false}) {
    const Preprocessing preprocessing(shape, {.scaled_decoding = scaled});
    const auto size = static_cast<std::size_t>(shape.size());
    std::vector<float> expected(size);
    std::vector<float> read(size);
    const std::string file = folder / "a.jpg";
    preprocessing.apply(read_image_file(file), file, expected);
    images_of_files({file}, preprocessing).read(0, read);
    CHECK(read == expected);
    std::vector<float> other(size);
    Preprocessing(shape, {.scaled_decoding = !scaled}).apply(read_image_file(file), file, other);
    CHECK(read != other);
  }
}

}  // namespace heddle::test::evaluation_set_test
