#include "experiments/program/bench/bench.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/config/study.h"
#include "experiments/program/bench/machine.h"
#include "experiments/program/bench/peer.h"
#include "experiments/training/experiment.h"
#include "framework/error.h"
#include "tests/support/devices.h"
#include "tests/support/images/encoded_image.h"
#include "tests/support/images/image_files.h"
#include "tests/support/program/called.h"

namespace heddle::test {
namespace {

using test::call;
using test::Called;

TEST_CASE("bench: rows as JSON keep all keys, null where nothing was measured") {
  const std::array<BenchRow, 1> rows{{{.name = "matmul", .value = 50, .unit = "GFLOP/s", .limit = 100, .share = 0.5}}};
  CHECK(bench_json(rows) == R"({
  "rows": [
    {
      "name": "matmul",
      "value": 50.0,
      "unit": "GFLOP/s",
      "limit": 100.0,
      "share": 0.5,
      "peer": null,
      "earlier": null,
      "ratio": null
    }
  ]
}
)");
}

TEST_CASE("bench: rows are compared with those of an earlier run that have their name and unit") {
  std::vector<BenchRow> earlier{
      {.name = "a step", .value = 4, .unit = "s"},       {.name = "  largest memory", .value = 1, .unit = "GB"},
      {.name = "another step", .value = 8, .unit = "s"}, {.name = "  largest memory", .value = 2, .unit = "GB"},
      {.name = "gone", .value = 8, .unit = "s"},         {.name = "nothing", .value = 0, .unit = "s"}};
  const WrittenImages files;
  files.write("earlier.json", bench_json(earlier));
  std::vector<BenchRow> rows{{.name = "another step", .value = 2, .unit = "s"},
                             {.name = "  largest memory", .value = 3, .unit = "GB"},
                             {.name = "a step", .value = 2, .unit = "ms"},
                             {.name = "nothing", .value = 1, .unit = "s", .peer = 3}};
  compare_with(rows, read_bench_json(files.path("earlier.json")));
  CHECK(bench_table(rows) ==
        "                                                  value unit          limit   share       peer    earlier   "
        "ratio\n"
        "another step                                          2 s                 -       -          -          8    "
        "0.25\n"
        "  largest memory                                      3 GB                -       -          -          2    "
        "1.50\n"
        "a step                                                2 ms                -       -          -          -     "
        "  -\n"
        "nothing                                               1 s                 -       -          3          0     "
        "  -\n");
  const auto json = nlohmann::json::parse(bench_json(rows))["rows"];
  CHECK(json[0]["earlier"] == 8);
  CHECK(json[0]["ratio"] == 0.25);
  CHECK(json[2]["earlier"].is_null());
  CHECK(json[3]["ratio"].is_null());
}

TEST_CASE("bench: a file that is no earlier run is refused before anything is measured") {
  const WrittenImages files;
  const auto said = [&](const std::string& text) {
    files.write("e.json", text);
    return refused_by("bench ops --compare " + files.path("e.json"));
  };
  const std::string begin = "heddle: " + files.path("e.json") + ": expected what `heddle bench --json` prints: ";
  CHECK(said("[]") == begin + "an object whose \"rows\" are a list\n");
  CHECK(said("{\"rows\": {}}") == begin + "an object whose \"rows\" are a list\n");
  for (const char* row : {"1", "{}", "{\"name\": 1, \"value\": 1, \"unit\": \"s\"}",
                          "{\"name\": \"a\", \"value\": \"1\", \"unit\": \"s\"}"})
    CHECK(said(fmt::format("{{\"rows\": [{{\"name\": \"a\", \"value\": 1, \"unit\": \"s\"}}, {}]}}", row)) ==
          begin + "\"name\", \"value\" and \"unit\" in /rows/1\n");
  CHECK(said("{\"rows\": [").starts_with("heddle: " + files.path("e.json") + ": line 1"));
  CHECK(refused_by("bench ops --compare " + files.path("none.json")).find("none.json") != std::string::npos);
}

TEST_CASE("bench: a peer is a Python with torch, whose failures are reported and leave its column empty") {
  const WrittenImages files;
  const auto python = [&](const std::string& script) {
    files.write("python", "#!/bin/sh\n" + script);
    std::filesystem::permissions(files.path("python"), std::filesystem::perms::owner_all);
    return files.path("python");
  };
  const std::string expected = ": expected a Python that can import torch: ";
  CHECK(refused_by("bench ops --peer " + files.path("none")) ==
        "heddle: --peer " + files.path("none") + expected + "there is no such program\n");
  CHECK(refused_by("bench ops --peer " + python("echo Traceback >&2; echo no module >&2; exit 1\n")) ==
        "heddle: --peer " + files.path("python") + expected + "no module\n");
  CHECK(refused_by("bench ops --peer " + python("exit 7\n")) ==
        "heddle: --peer " + files.path("python") + expected + "it ended with exit code 7\n");
  CHECK(refused_by("bench ops --peer " + python("echo '{\"torch\": 2, \"seconds\": 1}'\n")) ==
        "heddle: --peer " + files.path("python") + expected + "{\"torch\": 2, \"seconds\": 1}\n");
  CHECK(refused_by("bench data --peer python3") ==
        "heddle: --peer is an option of ops, steps, head and gpu: heddle bench steps --peer python3\n");

  // The script is the fourth argument; what follows names the work.
  const Peer peer(
      python("case \"$5\" in\n"
             "  version) echo '{\"torch\": \"2.0\", \"seconds\": 0}';;\n"
             "  step) echo warning; echo '{\"torch\": \"2.0\", \"seconds\": 1.5}'; echo \"$6\";;\n"
             "  *) echo '{\"torch\": \"2.0\", \"seconds\": 9}'; echo killed; exit 137;;\n"
             "esac\n"));
  CHECK(peer.version() == "torch 2.0");
  std::string failure;
  const auto keep = [&](const std::string& reason) { failure = reason; };
  CHECK(peer.seconds({"step", "a"}, keep) == 1.5);
  CHECK(failure.empty());
  CHECK(!peer.seconds({"head", "1"}, keep));
  CHECK(failure == "torch 2.0 could not do `head 1`: killed");
  python("exit 1\n");
  CHECK(peer.seconds({"step", "a"}, keep) == 1.5);  // is known
  CHECK(!peer.seconds({"step", "b"}, keep));
  CHECK(failure == "torch 2.0 could not do `step b`: it ended with exit code 1");
}

TEST_CASE("bench: an unknown name lists the known ones") {
  CHECK_THROWS_WITH_AS(run_bench("op", {}),
                       "unknown benchmark 'op': expected ops or collectives or steps or pipeline or head or data or "
                       "comparisons or search or gpu",
                       InputError);
}

TEST_CASE("bench: PLSC's protocol gives each run's middle half of the steps, and the median run") {
  const Called called = call({"bench", "head", "--protocol", "plsc", "--json", "--runs", "3", "--set", "model.type=mlp",
                              "--set", "data.image=[1,8,8]", "--set", "train.steps=8", "--set", "train.batch=16",
                              "--set", "data.identities=50", "--set", "head.classes=60"});
  REQUIRE(called.code == 0);
  const auto rows = nlohmann::json::parse(called.out)["rows"];
  REQUIRE(rows.size() == 5);
  std::vector<double> rates;
  for (int run = 0; run < 3; ++run) {
    CHECK(rows[run]["name"] == fmt::format("run {}, steps 2 to 6", run + 1));
    CHECK(rows[run]["unit"] == "images/s");
    rates.push_back(rows[run]["value"]);
  }
  std::sort(rates.begin(), rates.end());
  CHECK(rows[3]["name"] == "median of 3 runs of 8 steps");
  CHECK(rows[3]["value"] == rates[1]);
  CHECK(rows[4]["unit"] == "GB");
  CHECK(rows[4]["value"] > 0);
}

TEST_CASE("bench: data reads drawn JPEGs, and those of a folder, beside libjpeg-turbo's own loop" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const WrittenImages files;
  for (int i = 0; i < 3; ++i) files.write(fmt::format("a/{}.jpg", i), text_of(fine_jpeg(gradient(40, 40, 3))));
  const Called called =
      call({"bench", "data", "--threads", "1", "--json", "--images", files.path(), "--crop", "20", "--size", "10"});
  REQUIRE(called.code == 0);
  const auto rows = nlohmann::json::parse(called.out)["rows"];
  REQUIRE(rows.size() == 6);
  const std::array<std::string, 3> ways{"libjpeg-turbo alone", "read", "read, augment"};
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(rows[i]["name"] ==
          fmt::format("{}, 1 thread: {}", i < 3 ? "JPEG 112 x 112" : "images, crop 20 to 10", ways[i % 3]));
    CHECK(rows[i]["unit"] == "images/s");
    CHECK(rows[i]["value"] > 0);
    CHECK(rows[i]["limit"].is_null() == (i % 3 == 0));
  }
}

TEST_CASE("bench: data says what is wrong with a folder of images") {
  const WrittenImages files;
  const auto said = [](const std::vector<std::string>& arguments) {
    const Called called = call(arguments);
    CHECK(called.code == 2);
    return called.err.substr(called.err.rfind("heddle:"));
  };
  CHECK(said({"bench", "data", "--threads", "1", "--images", files.path()}) ==
        "heddle: --images \"" + files.path() + "\": expected files NAME.jpg or NAME.jpeg, found none\n");
  CHECK(said({"bench", "data", "--threads", "1", "--images", files.path("none")}) ==
        "heddle: --images \"" + files.path("none") + "\": No such file or directory\n");
  files.write("a/0.jpg", text_of(fine_jpeg(gradient(40, 40, 3))));
  CHECK(said({"bench", "data", "--threads", "2", "--images", files.path(), "--crop", "50"})
            .ends_with(": data.preprocessing.crop of 50 x 50 pixels is larger than the image of 40 x 40\n"));
  files.write("a/0.jpg", text_of(fine_jpeg(gradient(40, 40, 3))).substr(0, 30));
  CHECK(said({"bench", "data", "--threads", "2", "--images", files.path()}).starts_with("heddle: libjpeg-turbo: "));
  CHECK(said({"bench", "ops", "--images", "a"}) ==
        "heddle: --images is an option of data: heddle bench data --images a\n");
  CHECK(said({"bench", "data", "--long"}) ==
        "heddle: --long is an option of head and search: heddle bench head --long\n");
}

TEST_CASE("bench: options that do not apply to a protocol are refused") {
  const auto said = [](const std::vector<std::string>& arguments) {
    const Called called = call(arguments);
    CHECK(called.code == 2);
    return called.err;
  };
  CHECK(said({"bench", "ops", "--protocol", "plsc"}) ==
        "heddle: --protocol plsc is an option of head: heddle bench head --protocol plsc\n");
  CHECK(said({"bench", "head", "--protocol", "plsc", "--set", "train.steps=1"}) ==
        "heddle: train.steps: expected at least 2 for the protocol, got 1\n");
  CHECK(said({"bench", "head", "--protocol", "plsc", "--set", "head.clases=9"}) ==
        "heddle: --set head.clases: unknown key; did you mean \"classes\"?\n");
  CHECK(said({"bench", "head", "--protocol", "plsc", "--set", "mesh.tp=600"}) ==
        "heddle: the protocol plsc: /mesh: expected at most 1024 ranks, got 2 x 1 x 600\n");
  CHECK(said({"bench", "head", "--protocol", "plsc", "--set", "device=plan"}) ==
        "heddle: device: the protocol measures real time: expected cpu or cuda, got plan\n");
  CHECK(said({"bench", "head", "--protocol", "other"}).find("--protocol") != std::string::npos);
  CHECK(said({"bench", "head", "--set", "train.steps=4"}).find("--protocol") != std::string::npos);
  CHECK(said({"bench", "head", "--runs", "2"}).find("--protocol") != std::string::npos);
  CHECK(said({"bench", "head", "--protocol", "plsc", "--threads", "1"}).find("--protocol") != std::string::npos);
}

TEST_CASE("bench: a protocol that runs out of memory reports it as a run does") {
  CHECK(call({"bench", "head", "--protocol", "plsc", "--runs", "1", "--set", "memory_budget=1000", "--set",
              "model.type=mlp", "--set", "data.image=[1,4,4]", "--set", "head.classes=93431", "--set", "train.steps=2"})
            .code == 3);
}

TEST_CASE("bench: the protocol's own experiment is PLSC's recipe") {
  // Its plan: 128 images per rank, all classes of MS1MV3, a tenth of them in a step.
  const auto study = read_study_text<Experiment>(plsc_experiment(), "plsc");
  const Experiment& experiment = study.variants.at(0).root;
  CHECK(experiment.train.steps == 200);
  CHECK(experiment.train.batch == 128 * mesh_of(experiment).size());
  CHECK(experiment.model.type == ModelType::iresnet50);
  CHECK(experiment.head.sample.rate == 0.1);
}

TEST_CASE("bench: the shortest of several calls counts") {
  int calls = 0;
  CHECK(min_seconds([&] { ++calls; }, 0) < 1);
  CHECK(calls == 4);
}

}  // namespace
}  // namespace heddle::test
