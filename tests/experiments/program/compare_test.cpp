// `heddle compare`: tables, a page, the keys that differ, and damaged results.
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "framework/files/atomic_file.h"
#include "tests/support/files/deep_json.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t large = 1 << 24;

/// Runs a small experiment with this patch and returns its results folder.
std::string run_small(const Scratch& folder, const char* name, const Json& patch) {
  Json experiment = Json::parse(R"({
    "name": "small", "threads": 1,
    "data": {"type": "synthetic_identities", "identities": 6, "image": [1, 8, 8], "train_per_identity": 4},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5},
    "head": {"classes": 6},
    "train": {"batch": 6, "steps": 3, "optimizer": {"type": "sgd", "lr": 0.05}, "save": false}, "evaluation": {}})");
  experiment.merge_patch(patch);
  write_file_atomically(folder / "small.json", experiment.dump());
  const std::string results = (folder / name).string();
  const Called called = call({"run", (folder / "small.json").string(), "--out", results});
  CAPTURE(called.err);
  REQUIRE(called.code == 0);
  return results;
}

std::string two_variants(const Scratch& folder) {
  return run_small(folder, "b<i>", Json::parse(R"({"train": {"optimizer": {"lr": 0.1}}, "variants": [
                     {"name": "short", "patch": {}}, {"name": "wide", "patch": {"model": {"hidden": [24, 12]}}}]})"));
}

}  // namespace

TEST_CASE("runs and their variants are compared by their figures and by the keys that differ") {
  const Scratch folder;
  const std::string a = run_small(folder, "a", Json::object());
  const std::string b = two_variants(folder);
  const Called called = call({"compare", a, b, "--json"});
  REQUIRE(called.code == 0);
  const Json json = Json::parse(called.out);
  REQUIRE(json["runs"].size() == 3);
  const Json summary = Json::parse(read_file(fs::path(b) / "summary.json", large))["variants"][1];
  const Json run = json["runs"][2];
  CHECK(run["folder"] == b);
  CHECK(run["variant"] == "wide");
  CHECK(run["loss"] == summary["loss"]);
  CHECK(run["samples_per_second"] == summary["samples_per_second"]);
  CHECK(run["peak_bytes"]["total"] == summary["ranks"][0]["peak_bytes"]["total"]);
  REQUIRE(run["accuracy"].contains("rank 1"));
  CHECK(run["accuracy"]["rank 1"] == summary["evaluation"]["rank1"]);
  CHECK(json["differences"] == Json::parse(R"([
    {"pointer": "/model/hidden", "values": [[12], [12], [24, 12]]},
    {"pointer": "/train/optimizer/lr", "values": [0.05, 0.1, 0.1]}])"));

  const std::string text = call({"compare", a, b}).out;
  CHECK(text.find("; sent: by all ranks in all steps since the last start\n") != std::string::npos);
  CHECK(text.find("\nhow the experiments differ\n/model/hidden\n  [12]     " + a) != std::string::npos);
  CHECK(text.find("\n/train/optimizer/lr\n  0.05  " + a + "\n  0.1   " + b + ": short") != std::string::npos);
  CHECK(call({"compare", a, a}).out.ends_with("\nthe experiments are equal\n"));
  CHECK(call({"compare", a}).out.find("experiments") == std::string::npos);
}

TEST_CASE("a set that is called like a column of the test images has a column of its own") {
  const Scratch folder;
  const std::string run = run_small(folder, "a", Json::parse(R"({"evaluation": {"sets": [
                                      {"name": "rank 1", "type": "drawn"}, {"name": "b", "type": "drawn"}]}})"));
  const Called called = call({"compare", run, "--json"});
  REQUIRE(called.code == 0);
  const Json accuracy = Json::parse(called.out)["runs"][0]["accuracy"];
  const Json evaluation = Json::parse(read_file(fs::path(run) / "summary.json", large))["variants"][0]["evaluation"];
  CHECK(accuracy["rank 1"] == evaluation["rank1"]);
  CHECK(accuracy["set \"rank 1\""] == evaluation["sets"][0]["accuracy"]);
  CHECK(accuracy["b"] == evaluation["sets"][1]["accuracy"]);
}

TEST_CASE("where one run has an object and another null, the keys of the object differ") {
  const Scratch folder;
  const std::string a = run_small(folder, "a", Json::parse(R"({"evaluation": null})"));
  const std::string b = run_small(folder, "b", Json::parse(R"({"evaluation": {"flip": true}})"));
  const Called called = call({"compare", a, b, "--json"});
  REQUIRE(called.code == 0);
  std::set<std::string> pointers;
  const Json json = Json::parse(called.out);
  for (const Json& difference : json["differences"]) pointers.insert(difference["pointer"]);
  CHECK(pointers.contains("/evaluation/flip"));
  CHECK_FALSE(pointers.contains("/evaluation"));
}

TEST_CASE("the page of a comparison is one file with figures for wide and narrow screens, and escapes names") {
  const Scratch folder;
  const std::string b = two_variants(folder);
  REQUIRE(call({"compare", b, "--html", (folder / "page.html").string()}).code == 0);
  const std::string page = read_file(folder / "page.html", large);
  const auto count = [&](const std::string& text) {
    std::size_t times = 0;
    for (std::size_t at = 0; (at = page.find(text, at)) != std::string::npos; ++at) ++times;
    return times;
  };
  CHECK(count("<svg ") == 4);
  CHECK(count("</svg>") == 4);
  CHECK(count("aria-label=\"loss by step\"") == 2);
  CHECK(count(">peak memory of the fullest rank (") == 2);
  CHECK(count("b<i>") == 0);
  CHECK(count("b&lt;i&gt;") > 0);
  CHECK(count("<script") == 0);
  CHECK(count("src=") == 0);
  for (const char* const number : {"\"nan", " nan", "Mnan", "Lnan"}) CHECK(count(number) == 0);
}

TEST_CASE("damaged results are named with the file and the reason, and no page is written") {
  const Scratch folder;
  const std::string a = run_small(folder, "a", Json::object());
  const std::string page = (folder / "page.html").string();
  const auto error = [&] {
    const Called called = call({"compare", a, "--html", page});
    CHECK(called.code == 2);
    CHECK(called.out.empty());
    CHECK(!fs::exists(page));
    return called.err;
  };
  const std::string file = a + "/summary.json";
  const std::string text = read_file(file, large);
  const auto with = [&](const char* pointer, const Json& value) {
    Json changed = Json::parse(text);
    changed[Json::json_pointer(pointer)] = value;
    write_file_atomically(file, changed.dump());
    return error();
  };
  const std::string begin = "heddle: " + file + ": is not the summary of a run: ";
  CHECK(with("/variants", 3) == begin + "/variants: expected a list, found 3\n");
  CHECK(with("/variants/0/loss", "low") == begin + "/variants/0/loss: expected an object, found \"low\"\n");
  CHECK(with("/variants/0/ranks/0/sent_bytes", nullptr) ==
        begin + "/variants/0/ranks/0/sent_bytes: expected a number, found null\n");
  CHECK(with("/variants/0/loss_per_step/1", "x") ==
        begin + "/variants/0/loss_per_step/1: expected a number, found \"x\"\n");
  for (const auto& [steps, found] : {std::pair<Json, std::string>{1e300, "1e+300"}, {-1, "-1"}, {2.5, "2.5"}})
    CHECK(with("/variants/0/steps", steps) ==
          begin + "/variants/0/steps: expected an integer from 0 to 2^53, found " + found + "\n");
  CHECK(with("/variants/0/name", "other") ==
        "heddle: " + file + ": the variant \"other\" is not in " + a + "/experiment.json\n");
  CHECK(with("/variants", Json::array()) == "heddle: " + file + ": has no variants\n");
  write_file_atomically(file, text.substr(0, text.size() / 2));
  CHECK(error() == "heddle: " + file + ": is not JSON, or has more than 64 levels of nesting\n");
  write_file_atomically(file, R"({"variants": [{"name": )" + deep_json() + "}]}");
  CHECK(error() == "heddle: " + file + ": is not JSON, or has more than 64 levels of nesting\n");
  fs::remove(file);
  CHECK(error() == "heddle: " + file + ": does not exist: expected the results folder of a run that has ended\n");
  write_file_atomically(file, text);
  write_file_atomically(a + "/experiment.json", "{\"name\": 3}");
  CHECK(error().starts_with("heddle: " + a + "/experiment.json"));
  CHECK(call({"compare", a, "--html", (folder / "page.txt").string()}).err ==
        "heddle: --html " + (folder / "page.txt").string() + ": expected a file that ends in .html\n");
}

}  // namespace heddle::test
