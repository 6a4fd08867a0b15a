// Checkpoints that are evaluated after the training, whose data are gone.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/training/checkpoints/find_checkpoint.h"
#include "framework/files/atomic_file.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/images/drawn_faces.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Six people with four photographs each in train/, four others with two each in faces/, and pairs.txt.
void write_data(const fs::path& folder) {
  for (int person = 0; person < 6; ++person)
    for (int photograph = 0; photograph < 4; ++photograph)
      write_new_file(folder / "train" / fmt::format("{}/{}.pgm", person, photograph), face_as_pgm(person, photograph));
  std::string pairs;
  for (int person = 0; person < 4; ++person) {
    for (int photograph = 0; photograph < 2; ++photograph)
      write_new_file(folder / "faces" / fmt::format("{}_{}.pgm", person, photograph),
                     face_as_pgm(person, 7 + photograph));
    pairs += fmt::format("{0}_0.pgm\t{0}_1.pgm\t1\n{0}_0.pgm\t{1}_1.pgm\t0\n", person, (person + 1) % 4);
  }
  write_file_atomically(folder / "pairs.txt", pairs);
}

Json experiment(const fs::path& folder) {
  Json json = Json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"dp": 2},
    "data": {"type": "image_folder", "image": [1, 8, 8], "train_per_identity": 3},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5},
    "head": {"classes": 6},
    "train": {"batch": 12, "steps": 6, "optimizer": {"type": "sgd", "lr": 0.05}},
    "evaluation": {"every": 2, "keep_best": true,
                   "sets": [{"name": "faces", "type": "pairs"},
                            {"name": "again", "type": "pairs", "threshold_from": "faces"}]}})");
  json["data"]["path"] = (folder / "train").string();
  for (Json& set : json["evaluation"]["sets"]) {
    set["path"] = (folder / "faces").string();
    set["pairs"] = (folder / "pairs.txt").string();
  }
  return json;
}

}  // namespace

TEST_CASE("eval gives a checkpoint's sets the figures of the run, without its data, on other ranks") {
  const Scratch scratch;
  const fs::path folder = scratch / "";
  write_data(folder);
  std::ofstream(folder / "small.json") << experiment(folder).dump();
  const std::string out = (folder / "out").string();
  const Called run = call({"run", (folder / "small.json").string(), "--out", out, "--json"});
  REQUIRE(run.code == 0);
  CHECK(run.err.find("step 2:  faces ") != std::string::npos);
  const Json evaluation = Json::parse(run.out)["variants"][0]["evaluation"];
  REQUIRE(evaluation["sets"].size() == 2);
  CHECK(evaluation["sets"][0]["pairs"] == 8);
  CHECK(evaluation["rank1"].is_number());
  CHECK(fs::exists(folder / "out/roc.csv"));

  fs::remove_all(folder / "train");
  const auto eval = [](const std::string& checkpoint, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"eval", checkpoint, "--json"});
    const Called called = call(more);
    CAPTURE(called.err);
    REQUIRE(called.code == 0);
    return Json::parse(called.out);
  };
  const Json whole = eval(out);
  CHECK(whole["name"] == "small");
  CHECK(whole["steps"] == 6);
  CHECK(whole["sets"] == evaluation["sets"]);
  CHECK(eval(out + "/checkpoint/small/step-000006/")["sets"] == evaluation["sets"]);
  CHECK(eval(out, {"--set", "mesh.dp=2"})["sets"] == evaluation["sets"]);
  const Json best = eval(out + "/checkpoint/small/best");
  CHECK(best["steps"] == evaluation["best"]["steps"]);
  CHECK(best["sets"][0]["accuracy"] == evaluation["best"]["accuracy"]);
  // Other sets than those of the training.
  const Json sets = Json::array({experiment(folder)["evaluation"]["sets"][0]});
  const Json other = eval(out, {"--set", "evaluation.sets=" + sets.dump(), "--out", (folder / "evaluated").string()});
  CHECK(other["sets"].size() == 1);
  CHECK(Json::parse(read_file(folder / "evaluated/evaluation.json", 1 << 20)) == other);
  CHECK(
      read_file(folder / "evaluated/roc.csv", 1 << 20).starts_with("variant,set,threshold,far,tar\nsmall,faces,-inf,"));

  const Called table = call({"eval", out});
  CHECK(table.out.starts_with("variant    set"));
  const Called into_run = call({"eval", out, "--out", out});
  CHECK(into_run.code == 2);
  CHECK(into_run.err == "heddle: " + out +
                            ": holds the results of a run, whose roc.csv would be replaced: choose another folder with "
                            "--out\n");
}

TEST_CASE("a training without test images is evaluated on sets, and people who are not trained have no rank-1") {
  const Scratch scratch;
  const fs::path folder = scratch / "";
  write_data(folder);
  const auto run = [&](const Json& json) {
    std::ofstream(folder / "small.json") << json.dump();
    return call({"run", (folder / "small.json").string(), "--out", (folder / "out").string(), "--json", "--force"});
  };
  Json json = experiment(folder);
  json["data"].erase("train_per_identity");
  json["data"].update(Json{{"split", "people"}, {"people", (folder / "people.txt").string()}});
  json["head"]["classes"] = 4;
  write_file_atomically(folder / "people.txt", "0\n1\n2\n3\n");
  const Called trained = run(json);
  REQUIRE(trained.code == 0);
  const Json evaluation = Json::parse(trained.out)["variants"][0]["evaluation"];
  CHECK(evaluation["rank1"].is_null());
  CHECK(evaluation["verification"].is_null());
  CHECK(evaluation["sets"].size() == 2);

  json["data"]["test_people"] = (folder / "test_people.txt").string();
  write_file_atomically(folder / "test_people.txt", "4\n5\n");
  const Called tested = run(json);
  REQUIRE(tested.code == 0);
  const Json with_test_people = Json::parse(tested.out)["variants"][0]["evaluation"];
  CHECK(with_test_people["rank1"].is_null());
  CHECK(with_test_people["verification"]["accuracy"].is_number());

  json["data"].erase("test_people");
  json["evaluation"] = Json::object();
  const Called refused = run(json);
  CHECK(refused.code == 2);
  CHECK(
      refused.err.ends_with("heddle: evaluation: nothing to evaluate: the data have no test images, and "
                            "evaluation.sets is empty; evaluation = null trains without it\n"));
}

TEST_CASE("eval names what is missing: a checkpoint, a set, the data of a drawn one") {
  const Scratch scratch;
  const fs::path folder = scratch / "";
  write_data(folder);
  Json json = experiment(folder);
  json["evaluation"] = nullptr;
  json["variants"] = Json::parse(R"([{"name": "a"}, {"name": "b", "patch": {"seed": 2}}])");
  std::ofstream(folder / "small.json") << json.dump();
  const std::string out = (folder / "out").string();
  REQUIRE(call({"run", (folder / "small.json").string(), "--out", out}).code == 0);
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "eval");
    const Called called = call(arguments);
    CHECK(called.code == 2);
    return called.err.substr(0, called.err.find('\n', called.err.find("heddle: ")));
  };
  CHECK(error({out + "/none"}) ==
        fmt::format("heddle: {}/none: does not exist: expected the folder of a checkpoint", out));
  CHECK(error({folder / "faces"}) ==
        fmt::format("heddle: {}: there is no checkpoint in it", (folder / "faces").string()));
  CHECK(error({out}) == fmt::format("heddle: {0}: expected one of {0}/checkpoint/a, {0}/checkpoint/b", out));
  const std::string checkpoint = out + "/checkpoint/a";
  CHECK(error({checkpoint})
            .ends_with("heddle: evaluation.sets: expected a set to evaluate the checkpoint on (--set "
                       "'evaluation.sets=[...]')"));
  CHECK(error({checkpoint, "--out", "/dev/full"}) == "heddle: --out: expected a folder, got the file /dev/full");
  fs::remove_all(folder / "train");
  CHECK(
      error({checkpoint, "--set", R"(evaluation.sets=[{"name": "a", "type": "drawn"}])"})
          .ends_with(fmt::format("data.path: expected a folder, \"{}\" does not exist", (folder / "train").string())));
  CHECK(error({checkpoint, "--set", "evaluation.sets=[]", "--set", "evaluation.every=3"})
            .ends_with("every: expected sets to evaluate, in evaluation.sets"));
  CHECK(error({checkpoint, "--set", R"(evaluation.sets=[{"name": "a", "type": "bin"}])"}) ==
        "heddle: --set evaluation.sets: /evaluation/sets/0/path: expected a string, got nothing");
}

TEST_CASE("eval calls the variants of a study by their names") {
  Files files;
  Json study = small_study();
  study["evaluation"] = Json::parse(R"({"every": 6, "keep_best": true, "sets": [{"name": "faces", "type": "drawn"}]})");
  study["variants"] = Json::parse(R"([{"name": "a b"}, {"name": "best"}])");
  REQUIRE(call({"run", files.write(study), "--out", files.path("out")}).code == 0);
  const auto named = [&](const std::string& checkpoint) {
    const Called called = call({"eval", checkpoint, "--out", files.path("evaluated")});
    CAPTURE(called.err);
    REQUIRE(called.code == 0);
    const std::string roc = read_file(files.path("evaluated") + "/roc.csv", 1 << 20);
    const std::size_t row = roc.find('\n') + 1;
    return roc.substr(row, roc.find(',', row) - row);
  };
  const std::string checkpoints = files.path("out") + "/checkpoint/";
  CHECK(named(checkpoints + "a%20b") == "a b");
  CHECK(named(checkpoints + "a%20b/best") == "a b");
  CHECK(named(checkpoints + "best") == "best");
  CHECK(named(checkpoints + "best/best/step-000006") == "best");
  std::filesystem::rename(checkpoints + "a%20b", files.path("elsewhere"));
  CHECK(named(files.path("elsewhere")) == "small");
}

TEST_CASE("a best checkpoint of steps that are done again is not the best any more") {
  Files files;
  Json study = small_study();
  study["evaluation"] = Json::parse(R"({"every": 2, "keep_best": true, "sets": [{"name": "faces", "type": "drawn"}]})");
  const std::string file = files.write(study);
  const std::filesystem::path best = files.path("out") + "/checkpoint/small/best";
  const std::vector<std::string> run{"run", file, "--out", files.path("out")};
  REQUIRE(call({"run", file, "--out", files.path("out"), "--set", "train.steps=2"}).code == 0);
  REQUIRE(std::filesystem::exists(best / "step-000002"));
  std::filesystem::copy(best / "step-000002", best / "step-000005", std::filesystem::copy_options::recursive);
  std::vector<std::string> again = run;
  again.insert(again.end(), {"--resume", "--set", "train.steps=3"});
  REQUIRE(call(again).code == 0);
  const std::int64_t kept = latest_in(best).value();
  CHECK((kept == 2 || kept == 3));

  // Only the best one is left: the run begins anew, and with it the search for the best.
  std::filesystem::remove_all(files.path("out") + "/checkpoint/small/step-000003");
  std::filesystem::rename(best / step_name(kept), best / "step-000005");
  again[4] = "--resume=auto";
  REQUIRE(call(again).code == 0);
  const std::int64_t anew = latest_in(best).value();
  CHECK((anew == 2 || anew == 3));
}

TEST_CASE("where the best checkpoint cannot be written, the newest one is") {
  Files files;
  Json study = small_study();
  study["evaluation"] = Json::parse(R"({"every": 6, "keep_best": true, "sets": [{"name": "faces", "type": "drawn"}]})");
  std::filesystem::create_directories(files.path("out") + "/checkpoint/small");
  std::filesystem::create_symlink(files.path("none") + "/folder", files.path("out") + "/checkpoint/small/best");
  const Called called = call({"run", files.write(study), "--out", files.path("out"), "--json", "--force"});
  CAPTURE(called.err);
  CHECK(called.err.find("the checkpoint after 6 steps is lost: ") != std::string::npos);
  CHECK(std::filesystem::exists(files.path("out") + "/checkpoint/small/step-000006"));
}

}  // namespace heddle::test
