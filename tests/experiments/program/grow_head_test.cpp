// `run --resume --grow-head`: people are added to a trained head, and dropped, by their names.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <doctest/doctest.h>

#include "experiments/training/checkpoints/checkpoint_files.h"
#include "framework/tensors/device.h"
#include "tests/support/program/trained.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

/// Row by row.
std::vector<std::vector<float>> saved_rows(const std::filesystem::path& checkpoint, const std::string& name) {
  const CheckpointFiles files(checkpoint);
  Device host(make_backend("cpu"));
  const CheckpointFiles::Whole whole = files.find(name).value();
  const StateTensor all{name, Tensor::empty(host, whole.shape, whole.dtype), ParameterPart::all_of(whole.shape)};
  for (int i = 0; i < files.size(); ++i) files.load(i, {all});
  const std::vector<float> elements = all.value.to_host<float>();
  std::vector<std::vector<float>> rows;
  for (std::int64_t row = 0; row < whole.shape[0]; ++row)
    rows.emplace_back(elements.begin() + row * whole.shape[1], elements.begin() + (row + 1) * whole.shape[1]);
  return rows;
}

}  // namespace

TEST_CASE("a person who comes before all others in the data does not move their weights and momentum") {
  const Scratch folder;
  const std::string results = train_small(folder / "");
  const std::filesystem::path checkpoints = folder / "results/checkpoint/small";
  CHECK(std::filesystem::exists(checkpoints / "step-000003/classes.txt"));
  const auto weights = saved_rows(checkpoints / "step-000003", "head.weight");
  const auto velocity = saved_rows(checkpoints / "step-000003", "velocity.head.weight");
  // The second one of s1 .. s4 is dropped, and a new person comes first in the order of the names.
  const std::filesystem::path faces = folder / "faces";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(faces)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() == 4);
  std::filesystem::rename(faces / names[1], faces / "a_new_person");
  const std::string experiment = (folder / "small.json").string();
  const auto resume = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run", experiment, "--out", results, "--resume"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return call(arguments);
  };
  CHECK(resume({"--set", "train.steps=4"}).err.find("was saved with other training images") != std::string::npos);
  // A step this small leaves the weights as they are.
  const Called other = resume(
      {"--grow-head", "--set", "train.steps=4", "--set", "head.classes=6", "--set", "train.optimizer.momentum=0.5"});
  CHECK(other.code == 2);
  CHECK(other.err.find("(train.optimizer.momentum was 0.9, is 0.5): with a grown head, data and head.classes may "
                       "change") != std::string::npos);
  CHECK(resume({"--grow-head", "--fresh-head"}).code != 0);

  const Called done = resume({"--grow-head", "--set", "train.steps=3", "--set", "head.classes=6"});
  CHECK(done.code == 2);
  CHECK(done.err.find("step-000003: all 3 steps are done, so that the changed head would not be trained: raise "
                      "train.steps") != std::string::npos);
  const Called grown =
      resume({"--grow-head", "--set", "train.steps=4", "--set", "head.classes=6", "--set", "mesh.dp=3"});
  CAPTURE(grown.err);
  REQUIRE(grown.code == 0);
  CHECK(grown.err.find("head goes from 4 to 6 classes: 3 stay, 3 are new, 1 is dropped") != std::string::npos);
  const auto now = saved_rows(checkpoints / "step-000004", "head.weight");
  REQUIRE(now.size() == 6);
  for (const auto& [row, was] : {std::pair(1, 0), std::pair(2, 2), std::pair(3, 3)}) {
    double apart = 0;
    double others = 1e9;
    for (std::size_t i = 0; i < now[row].size(); ++i) apart += std::abs(now[row][i] - weights[was][i]);
    for (std::size_t w = 0; w < weights.size(); ++w) {
      double distance = 0;
      for (std::size_t i = 0; i < now[row].size(); ++i) distance += std::abs(now[row][i] - weights[w][i]);
      if (w != static_cast<std::size_t>(was)) others = std::min(others, distance);
    }
    CHECK(apart < others);
  }
  CHECK(velocity.size() == 4);
  const Called again = resume({"--set", "train.steps=5", "--set", "head.classes=6"});
  CAPTURE(again.err);
  CHECK(again.code == 0);
}

}  // namespace heddle::test
