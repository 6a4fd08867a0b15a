// The walk of docs/faces.md on small drawn faces: pack, train on four ranks, stop, resume on two, evaluate.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/compare/close_to.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/images/drawn_faces.h"
#include "tests/support/program/called.h"

namespace heddle::test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Six people to train, and four others in pairs: as files with a list, and in a .bin.
void write_walk(const fs::path& folder) {
  write_people(folder / "faces", {4, 5, 3, 6, 4, 5});
  std::string list;
  std::vector<std::string> images;
  std::vector<bool> labels;
  const auto add_pair = [&](int first, int second) {
    list += fmt::format("{}_0.jpg\t{}_1.jpg\t{}\n", first, second, first == second ? 1 : 0);
    images.insert(images.end(), {face_as_jpeg(first, 7), face_as_jpeg(second, 8)});
    labels.push_back(first == second);
  };
  for (int person = 0; person < 4; ++person) {
    for (int i = 0; i < 2; ++i)
      write_new_file(folder / "others" / fmt::format("{}_{}.jpg", person, i), face_as_jpeg(person, 7 + i));
    add_pair(person, person);
    add_pair(person, (person + 1) % 4);
  }
  write_file_atomically(folder / "pairs.txt", list);
  write_file_atomically(folder / "others.bin", bin_file(images, labels));
}

Json walk_experiment(const fs::path& folder) {
  Json json = Json::parse(R"({
    "name": "walk", "threads": 1, "mesh": {"dp": 4},
    "data": {"type": "recordio", "image": [1, 8, 8], "augmentation": {"flip": 0.5}},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5},
    "head": {"classes": 6, "logits": "fused"},
    "train": {"batch": 8, "steps": 6, "save_every": 2, "optimizer": {"type": "sgd", "lr": 0.05}},
    "evaluation": {"sets": [{"name": "pairs", "type": "pairs"}]}})");
  json["data"]["train"] = (folder / "packed/train.rec").string();
  json["evaluation"]["sets"][0]["path"] = (folder / "others").string();
  json["evaluation"]["sets"][0]["pairs"] = (folder / "pairs.txt").string();
  return json;
}

}  // namespace

TEST_CASE("photographs are packed, trained on four ranks, resumed on two, and evaluated on pairs and on a .bin") {
  const Files files;
  const fs::path folder = files.path("");
  write_walk(folder);
  fs::create_directory(folder / "packed");
  REQUIRE(call({"data", "pack", (folder / "faces").string(), (folder / "packed/train.rec").string()}).code == 0);
  REQUIRE(call({"data", "check", (folder / "packed/train.rec").string()}).code == 0);
  fs::remove_all(folder / "faces");
  write_file_atomically(folder / "walk.json", walk_experiment(folder).dump());
  const auto run = [&](const char* out, std::vector<std::string> more) {
    more.insert(more.begin(), {"run", (folder / "walk.json").string(), "--json", "--out", files.path(out)});
    const Called called = call(more);
    CAPTURE(called.err);
    REQUIRE(called.code == 0);
    return summary(called)["variants"][0];
  };
  const Json whole = run("whole", {});
  (void)run("out", {"--set", "train.steps=4"});
  const Json resumed = run("out", {"--resume", "--set", "mesh.dp=2"});
  REQUIRE(resumed["loss_per_step"].size() == 6);
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(resumed["loss_per_step"][i].get<double>() == close_to(whole["loss_per_step"][i].get<double>()).epsilon(2e-5));

  fs::remove_all(folder / "packed");
  const Json sets{{{"name", "bin"}, {"type", "bin"}, {"path", (folder / "others.bin").string()}},
                  walk_experiment(folder)["evaluation"]["sets"][0]};
  const Called evaluated = call({"eval", files.path("out"), "--json", "--set", "evaluation.sets=" + sets.dump()});
  REQUIRE(evaluated.code == 0);
  const Json results = Json::parse(evaluated.out)["sets"];
  REQUIRE(results.size() == 2);
  CHECK(results[1] == resumed["evaluation"]["sets"][0]);
  // The same pairs in a file of their own.
  CHECK(results[0]["pairs"] == 8);
  CHECK(results[0]["accuracy"] == results[1]["accuracy"]);
  CHECK(results[0]["area_under_roc"] == results[1]["area_under_roc"]);
}

}  // namespace heddle::test
