// A training on several data sets from the command line: errors of its keys, results, plan, explain, resumption.
#include <fstream>
#include <functional>
#include <sstream>

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"
#include "tests/support/files/experiment_files.h"

namespace heddle::test::several_sets_run_test {

namespace {

using Json = nlohmann::json;
using test::call;
using test::Called;
using test::Files;
using test::summary;

Json two_sets() {
  Json study = test::small_study();
  study["name"] = "two";
  Json second = study["data"];
  study["data"]["name"] = "large";
  study["data"]["share"] = 3;
  second["name"] = "small";
  second["identities"] = 4;
  study["data"] = Json::array({study["data"], second});
  study["head"] = Json::parse(R"([{"classes": 9}, {"classes": 4, "margin": {"m3": 0.1}, "loss_weight": 0.5}])");
  return study;
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// What `validate` says of a changed study, after the file's name.
std::string refusal(const std::function<void(Json&)>& change) {
  Files files;
  Json study = two_sets();
  change(study);
  const std::string file = files.write(study);
  const Called called = call({"validate", file});
  CHECK(called.code == 2);
  const std::string place = "heddle: " + file + ": ";
  CHECK(called.err.starts_with(place));
  return called.err.substr(std::min(place.size(), called.err.size()));
}

}  // namespace

TEST_CASE("several data sets: each error names the key and says what is expected") {
  CHECK(refusal([](Json& s) { s["head"].erase(1); }) == "/head: expected one head for each of 2 data sets, got 1\n");
  CHECK(refusal([](Json& s) { s["data"] = s["data"][0]; }) ==
        "/head: expected one head for each of 1 data set, got 2\n");
  CHECK(refusal([](Json& s) { s["data"][1].erase("name"); }) ==
        "/data/1/name: expected a name of letters, digits, _ and -, as there are several data sets, got \"\"\n");
  CHECK(refusal([](Json& s) { s["data"][0]["name"] = "a.b"; }) ==
        "/data/0/name: expected a name of letters, digits, _ and -, as there are several data sets, got \"a.b\"\n");
  CHECK(refusal([](Json& s) { s["data"][1]["name"] = "large"; }) ==
        "/data/1/name: expected another name than that of data.0, got \"large\"\n");
  CHECK(refusal([](Json& s) { s["train"]["batch"] = 10; }) ==
        "/train/batch: expected a multiple of 4, the sum of the data sets' shares, such as 8 or 12, got 10\n");
  CHECK(refusal([](Json& s) { s["train"]["batch"] = 3; }) ==
        "/train/batch: expected a multiple of 4, the sum of the data sets' shares, such as 4, got 3\n");
  CHECK(refusal([](Json& s) {
          s["data"][1]["image"] = {1, 8, 9};
        }) == "/data/1: expected images of the same channels, height and width as those of data.0\n");
  CHECK(refusal([](Json& s) {
          s["data"][1]["preprocessing"] = {{"scale", {4.0}}};
        }) ==
        "/data/1/preprocessing: expected the colour, mean and scale of data.0: the network takes the images of all "
        "sets\n");
  CHECK(refusal([](Json& s) {
          s["data"][1]["loader"] = {{"prefetch", 3}};
        }) == "/data/1/loader: expected the loader of data.0: one loader reads the images of all sets\n");
  CHECK(refusal([](Json& s) { s["head"][1]["loss_every"] = 2; }) ==
        "/head/1/loss_every: expected 1, that of head.0, got 2\n");
  CHECK(refusal([](Json& s) { s["head"][1]["classes"] = 3; }) ==
        "/head/1/classes: expected at least the data's 4 people, got 3\n");
  CHECK(refusal([](Json& s) { s["head"][1]["loss_weight"] = 0; }) ==
        "/head/1/loss_weight: expected a number > 0, got 0\n");
  CHECK(refusal([](Json& s) { s["head"][1]["over"] = Json::array(); }).starts_with("/head/1: head.over: expected"));
  CHECK(refusal([](Json& s) {
          s["mesh"] = {{"pp", 2}};
          s["head"][1]["over"] = {"dp"};
        }) ==
        "/head/1/over: expected pp in it as in head.0: either the ranks of all stages take part in the loss, or only "
        "those of the last stage\n");
  CHECK(refusal([](Json& s) {
          s["data"] = s["data"][0];
          s["head"] = s["head"][0];
        }) == "/data/share: expected 1, got 3: a single data set has all samples of each batch\n");
}

TEST_CASE("several data sets: the error of a folder that does not exist names the key of its set") {
  Files files;
  Json study = two_sets();
  study["data"][1] = {
      {"name", "small"}, {"type", "image_folder"}, {"path", "/nowhere"}, {"image", study["data"][0]["image"]}};
  const Called called = call({"run", files.write(study), "--out", files.path("out")});
  CHECK(called.code == 2);
  CHECK(called.err.ends_with("heddle: data.1.path: expected a folder, \"/nowhere\" does not exist\n"));
}

TEST_CASE(
    "several data sets: a run reports the loss of each head, in the table, the summary, metrics and TensorBoard") {
  Files files;
  const std::string file = files.write(two_sets());
  const Called run = call({"run", file, "--out", files.path("out")});
  REQUIRE(run.code == 0);
  CHECK(run.out.find("data sets that train one backbone: the loss of each one's head\n"
                     "variant  data set  images/step  classes  loss weight ") != std::string::npos);
  const Json variant = Json::parse(contents(files.path("out") + "/summary.json"))["variants"][0];
  REQUIRE(variant["head"].size() == 2);
  CHECK(variant["head"][0]["name"] == "large");
  CHECK(variant["head"][0]["samples"] == 6);
  CHECK(variant["head"][0]["classes"] == 9);
  CHECK(variant["head"][1]["samples"] == 2);
  CHECK(variant["head"][1]["loss_weight"] == 0.5);
  for (const char* which : {"first", "last"}) {
    const double sum =
        variant["head"][0]["loss"][which].get<double>() + 0.5 * variant["head"][1]["loss"][which].get<double>();
    CHECK(variant["loss"][which].get<double>() == close_to(sum).epsilon(1e-12));
  }
  std::istringstream metrics(contents(files.path("out") + "/metrics.jsonl"));
  std::string line;
  std::int64_t lines = 0;
  while (std::getline(metrics, line)) {
    const Json step = Json::parse(line);
    ++lines;
    REQUIRE(step["losses"].size() == 2);
    CHECK(step["loss"].get<double>() ==
          close_to(step["losses"]["large"].get<double>() + 0.5 * step["losses"]["small"].get<double>()));
  }
  CHECK(lines == 6);
  CHECK(files.contents("out/tensorboard").find("loss/small") != std::string::npos);
  const Json effective = Json::parse(contents(files.path("out") + "/experiment.json"));
  CHECK(effective["data"][1]["name"] == "small");
  CHECK(effective["head"][1]["margin"]["m3"] == 0.1);
  // The written experiment is the same one.
  const Called again = call({"run", files.path("out") + "/experiment.json", "--out", files.path("again"), "--json"});
  REQUIRE(again.code == 0);
  CHECK(summary(again)["variants"][0]["loss_per_step"] == variant["loss_per_step"]);
}

TEST_CASE("several data sets: a run resumes with its losses, also with new heads, and is not resumed as another") {
  Files files;
  const std::string file = files.write(two_sets());
  const Called whole = call({"run", file, "--out", files.path("whole"), "--json"});
  REQUIRE(call({"run", file, "--out", files.path("out"), "--set", "train.steps=2"}).code == 0);
  const std::vector<std::string> more{"run", file, "--out", files.path("out"), "--resume", "--json"};
  const auto with = [&](const std::vector<std::string>& others) {
    std::vector<std::string> arguments = more;
    arguments.insert(arguments.end(), others.begin(), others.end());
    return call(arguments);
  };
  const Called other = with({"--set", "head.1.loss_weight=0.25"});
  CHECK(other.code == 2);
  CHECK(other.err.find("was saved by a different experiment (head.1.loss_weight was 0.5, is 0.25)") !=
        std::string::npos);
  const Called resumed = with({});
  REQUIRE(resumed.code == 0);
  const Json a = summary(resumed)["variants"][0];
  const Json b = summary(whole)["variants"][0];
  CHECK(a["loss_per_step"] == b["loss_per_step"]);
  CHECK(a["head"][1]["loss"] == b["head"][1]["loss"]);
  const Called fresh = with({"--fresh-head", "--set", "train.steps=7", "--set", "head.1.classes=5"});
  CHECK(fresh.code == 0);
  CHECK(fresh.err.find("begins a new head of 9 classes\n") != std::string::npos);
  CHECK(fresh.err.find("begins a new head of 5 classes\n") != std::string::npos);
}

TEST_CASE("several data sets: plan counts a run's bytes, its search reaches one head, and explain lists each") {
  Files files;
  const std::string file = files.write(two_sets());
  const Called planned = call({"plan", file, "--json"});
  const Called run = call({"run", file, "--out", files.path("out"), "--json"});
  REQUIRE(planned.code == 0);
  REQUIRE(run.code == 0);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Json a = summary(planned)["variants"][0]["ranks"][rank];
    const Json b = summary(run)["variants"][0]["ranks"][rank];
    CHECK(a["peak_bytes"] == b["peak_bytes"]);
    CHECK(a["sent_bytes"] == b["sent_bytes"]);
  }
  const Called largest = call({"plan", file, "--json", "--maximise", "head.1.classes", "--budget", "64 KiB"});
  REQUIRE(largest.code == 0);
  const Json found = summary(largest)["variants"][0];
  CHECK(found["maximised"]["field"] == "head.1.classes");
  CHECK(found["head"][1]["classes"] == found["maximised"]["value"]);
  CHECK(found["head"][0]["classes"] == 9);
  const Called explained = call({"explain", file});
  REQUIRE(explained.code == 0);
  CHECK(explained.out.find("head large") != std::string::npos);
  CHECK(explained.out.find("head small") != std::string::npos);
  const Json heads = Json::parse(call({"explain", file, "--json"}).out)["variants"][0]["head"];
  REQUIRE(heads.size() == 2);
  CHECK(heads[1]["name"] == "head small");
}

TEST_CASE("several data sets: the test images are those of the first set, and a checkpoint is evaluated with it") {
  Files files;
  Json study = two_sets();
  study["evaluation"] = Json::parse(R"({"sets": [{"name": "drawn", "type": "drawn", "pairs": 20}]})");
  const std::string file = files.write(study);
  const Called run = call({"run", file, "--out", files.path("out"), "--json"});
  REQUIRE(run.code == 0);
  const Json evaluation = summary(run)["variants"][0]["evaluation"];
  CHECK(evaluation["rank1"].is_number());
  const Called evaluated = call({"eval", files.path("out"), "--json"});
  REQUIRE(evaluated.code == 0);
  CHECK(summary(evaluated)["sets"][0]["accuracy"] == evaluation["sets"][0]["accuracy"]);
  const Called shown = call({"data", "show", file});
  CHECK(shown.code == 2);
  CHECK(shown.err == "heddle: " + file +
                         ": data: expected one data set, got a list of 2: name the images of one of them, a folder, "
                         "a list or a .rec\n");
}

}  // namespace heddle::test::several_sets_run_test
