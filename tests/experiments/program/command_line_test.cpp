// The program as a user calls it: arguments in; text, files and an exit code out.
#include "experiments/program/command_line.h"

#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/program/command_table.h"
#include "experiments/results/results_folder.h"
#include "framework/files/atomic_file.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/program/called.h"
#include "tests/support/program/program.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

using Json = nlohmann::json;

using test::call;
using test::Called;
using test::Files;
using test::small_study;
using test::summary;

}  // namespace

TEST_CASE("run trains, prints one table and leaves a results folder") {
  Files files;
  const Called called = call({"run", files.write(small_study()), "--out", files.path("out")});
  CHECK(called.code == 0);
  CHECK(called.out.find("small") != std::string::npos);
  for (const char* name :
       {"experiment.json", "summary.json", "metrics.jsonl", "memory.csv", "trace.json", "schedule.csv"})
    CHECK(std::filesystem::exists(files.path("out") + "/" + name));
  CHECK(std::filesystem::exists(files.path("out") + "/checkpoint/small/step-000006/rank-1.safetensors"));
}

TEST_CASE("the effective experiment that a run writes gives the same run again") {
  Files files;
  const Called first = call({"run", files.write(small_study()), "--out", files.path("a"), "--json"});
  const Called second = call({"run", files.path("a") + "/experiment.json", "--out", files.path("b"), "--json"});
  REQUIRE(second.code == 0);
  CHECK(summary(first)["variants"][0]["loss_per_step"] == summary(second)["variants"][0]["loss_per_step"]);
}

TEST_CASE("a rank over its budget is a result: named, with exit code 3, and the other variants still run") {
  Files files;
  Json experiment = small_study();
  experiment["variants"] =
      Json::parse(R"([{"name": "tight", "patch": {"memory_budget": 4000}}, {"name": "wide", "patch": {}}])");
  const Called called = call({"run", files.write(experiment), "--out", files.path("out"), "--json"});
  CHECK(called.code == 3);
  const Json variants = summary(called)["variants"];
  CHECK(variants[0]["status"] == "out_of_memory");
  const std::string error = variants[0]["error"];
  CHECK(error.starts_with("rank "));
  CHECK(error.find(": out of memory: asked for ") != std::string::npos);
  CHECK(error.find(" of its budget of 3.91 KiB") != std::string::npos);
  CHECK(variants[1]["status"] == "ok");
}

TEST_CASE("if a later variant cannot begin, the results of those before it are written") {
  Files files;
  Json experiment = small_study();
  experiment["variants"] = Json::parse(R"([{"name": "first"}, {"name": "second",
      "patch": {"data": {"type": "image_folder", "path": "/nowhere"}}}])");
  const Called called = call({"run", files.write(experiment), "--out", files.path("out")});
  CHECK(called.code == 2);
  CHECK(called.err.ends_with("heddle: data.path: expected a folder, \"/nowhere\" does not exist\n"));
  const Json variants = Json::parse(read_file(files.path("out/summary.json"), std::uint64_t{1} << 20))["variants"];
  REQUIRE(variants.size() == 1);
  CHECK(variants[0]["status"] == "ok");
}

TEST_CASE("a model that does not fit is reported with the memory that was held") {
  Files files;
  const Called called =
      call({"run", files.write(small_study()), "--out", files.path("out"), "--json", "--set", "memory_budget=3200"});
  CHECK(called.code == 3);
  std::int64_t held = 0;
  const Json ranks = summary(called)["variants"][0]["ranks"];
  for (const Json& rank : ranks) held += rank["peak_bytes"]["parameters"].get<std::int64_t>();
  CHECK(held > 0);
}

TEST_CASE("plan counts the same operations per step as a training, with or without an evaluation") {
  Files files;
  const std::string file = files.write(small_study());
  const auto operations = [](const Called& called) {
    return summary(called)["variants"][0]["flops_per_step"].get<std::int64_t>();
  };
  const std::int64_t alone = operations(call({"plan", file, "--json"}));
  CHECK(alone > 0);
  CHECK(operations(call({"plan", file, "--json", "--set", "evaluation={}"})) == alone);
  CHECK(operations(call({"plan", file, "--json", "--set", "train.steps=2"})) == alone);
}

TEST_CASE("ranks that wait too long end the run with exit code 4, and the error names the awaited rank") {
  Files files;
  const Called called =
      call({"run", files.write(small_study()), "--out", files.path("out"), "--json", "--set", "timeout=1e-9"});
  CHECK(called.code == 4);
  const Json variant = summary(called)["variants"][0];
  CHECK(variant["status"] == "failed");
  CHECK(variant["error"].get<std::string>().find("rank ") != std::string::npos);
}

TEST_CASE("a training that diverges is stopped at its step, and keeps its last finite checkpoint") {
  Files files;
  const Called called = call({"run", files.write(small_study()), "--out", files.path("out"), "--json", "--set",
                              "train.optimizer.lr=1e300", "--set", "train.save_every=1"});
  CHECK(called.code == 4);
  const Json variant = summary(called)["variants"][0];
  CHECK(variant["status"] == "failed");
  CHECK(variant["error"].get<std::string>().find("the training has diverged") != std::string::npos);
  CHECK(variant["steps"].get<int>() < 6);
}

TEST_CASE("a batch too small for the embedding's batch norm is refused before anything runs") {
  Files files;
  const Called called = call({"validate", files.write(small_study()), "--set", "train.batch=7"});
  CHECK(called.code == 2);
  CHECK(called.err ==
        "heddle: --set train.batch: expected at least 8, got 7: the model's batch norm needs two samples in each part "
        "of the batch, and there are dp * micro_batches = 4 parts\n");
}

TEST_CASE("validate reports the errors of every file, and names the valid ones") {
  Files files;
  const std::string good = files.write(small_study());
  const Called called = call({"validate", "no/such.json", good, "nor/this.json"});
  CHECK(called.code == 2);
  CHECK(called.out == good + ": valid, 1 variant\n");
  CHECK(called.err ==
        "heddle: no/such.json: cannot be read: No such file or directory\n"
        "nor/this.json: cannot be read: No such file or directory\n");
}

TEST_CASE("two runs do not write into one folder at the same time") {
  Files files;
  const ResultsFolder first(files.path("out"), "{}", false);
  const Called second = call({"run", files.write(small_study()), "--out", files.path("out")});
  CHECK(second.code == 2);
  CHECK(second.err.find("another run is writing its results there") != std::string::npos);
}

TEST_CASE("plan counts the traffic of all steps, although it simulates two") {
  Files files;
  const std::string file = files.write(small_study());
  const auto sent = [&](const char* steps) {
    return summary(call({"plan", file, "--json", "--set", steps}))["variants"][0]["ranks"][1]["sent_bytes"]
        .get<std::int64_t>();
  };
  CHECK(sent("train.steps=3000000000") == 3'000'000'000 * sent("train.steps=1"));
}

TEST_CASE("plan counts the memory of a run to the byte, and computes nothing") {
  Files files;
  Json experiment = small_study();
  experiment["evaluation"] = Json::object();
  experiment["head"]["logits"] = "gathered";
  experiment["train"]["clip"] = {{"norm", 1}};
  const std::string file = files.write(experiment);
  const Json run = summary(call({"run", file, "--out", files.path("out"), "--json"}))["variants"][0];
  const Called planned = call({"plan", file, "--json"});
  REQUIRE(planned.code == 0);
  const Json plan = summary(planned)["variants"][0];
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (const char* key : {"peak_bytes", "sent_bytes", "received_bytes"})
      CHECK(plan["ranks"][rank][key] == run["ranks"][rank][key]);
  CHECK(plan["loss_per_step"][0].is_null());
}

TEST_CASE("plan --out writes a results folder, whose experiment gives the same plan; without it plan writes nothing") {
  Files files;
  const std::string file = files.write(small_study());
  const Called first = call({"plan", file, "--out", files.path("a"), "--json"});
  REQUIRE(first.code == 0);
  for (const char* name : {"summary.json", "memory.csv", "trace.json", "schedule.csv"})
    CHECK(std::filesystem::exists(files.path("a") + "/" + name));
  CHECK(read_file(files.path("a") + "/summary.json", 1 << 20) == first.out);
  CHECK(call({"plan", files.path("a") + "/experiment.json", "--json"}).out == first.out);
  CHECK(call({"plan", file, "--out", ""}).err.find("expected a folder or, with --search, a file, got \"\"") !=
        std::string::npos);
}

TEST_CASE("plan's time of a step is its operations at the profile's rate, and its bytes on the links") {
  Files files;
  Json experiment = small_study();
  experiment["mesh"]["dp"] = 1;
  experiment["profile"] = {{"flops", 1e6}, {"bandwidth", 1e20}};
  const Json computing = summary(call({"plan", files.write(experiment), "--json"}))["variants"][0];
  CHECK(computing["clock"] == "virtual");
  const double seconds = computing["flops_per_step"].get<double>() / 1e6;
  CHECK(computing["step_seconds"]["median"].get<double>() == close_to(seconds));
  CHECK(computing["samples_per_second"].get<double>() == close_to(8 / seconds));
  CHECK(computing["ranks"][0]["busy_seconds"].get<double>() == close_to(6 * seconds));

  // Two ranks of equal shards, to which computing and latency cost nothing: each byte that one sends takes its time.
  experiment["mesh"]["dp"] = 2;
  experiment["head"]["classes"] = 10;
  experiment["profile"]["flops"] = 1e20;
  experiment["links"] = {{"latency", 0}, {"bandwidth", 1e3}};
  const Json sending = summary(call({"plan", files.write(experiment), "--json"}))["variants"][0];
  CHECK(sending["step_seconds"]["median"].get<double>() ==
        close_to(sending["ranks"][0]["sent_bytes"].get<double>() / 6 / 1e3));
}

TEST_CASE("tables say which times are not wall times") {
  Files files;
  const std::string file = files.write(small_study());
  const auto notes = [&](const Called& called) {
    CHECK(called.code == 0);
    std::string found;
    std::istringstream lines(called.out);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("times are ")) found += line + "\n";
    return found;
  };
  CHECK(notes(call({"plan", file})) == "times are modelled: kernels by `profile`, messages by `links`\n");
  CHECK(notes(call({"run", file, "--out", files.path("wall")})).empty());
  CHECK(notes(call({"run", file, "--out", files.path("virtual"), "--set", "clock=virtual"})) ==
        "times are virtual: each rank's own CPU time, and messages by `links`\n");
}

TEST_CASE("with a virtual clock a run reports the time that its links would take") {
  Files files;
  Json experiment = small_study();
  experiment["clock"] = "virtual";
  experiment["links"] = {{"latency", 1000}};
  const Json run = summary(call({"run", files.write(experiment), "--out", files.path("out"), "--json"}))["variants"][0];
  CHECK(run["clock"] == "virtual");
  CHECK(run["step_seconds"]["min"].get<double>() > 1000);
  CHECK(run["ranks"][0]["busy_seconds"].get<double>() < 1000);
}

TEST_CASE("impossible layers to recompute are found in every variant before the first one runs") {
  Files files;
  Json experiment = small_study();
  const auto error = [&](const Json& pipeline) {
    experiment["variants"] = {{{"name", "a"}, {"patch", Json::object()}},
                              {{"name", "b"}, {"patch", Json::object()}},
                              {{"name", "c"}, {"patch", {{"pipeline", pipeline}}}}};
    const std::string file = files.write(experiment);
    const Called validated = call({"validate", file});
    const Called run = call({"run", file, "--out", files.path("out")});
    CHECK(validated.code == 2);
    CHECK(run.code == 2);
    CHECK(run.err == validated.err);
    CHECK_FALSE(std::filesystem::exists(files.path("out")));
    const std::string place = "heddle: " + file + ": /variants/2/patch/pipeline/recompute_layers: ";
    CHECK(validated.err.starts_with(place));
    return validated.err.substr(std::min(place.size(), validated.err.size()));
  };
  CHECK(error({{"recompute_layers", {"*", "no.such"}}}) == "model: no layer's name matches \"no.such\"\n");
  CHECK(error({{"recompute", "sqrt"}, {"recompute_layers", {"*"}}}) ==
        "expected none, because pipeline.recompute = sqrt recomputes all layers\n");
}

TEST_CASE("names in errors cannot steer a terminal") {
  CHECK(call({"run", "no\x1b[31m.json"}).err == "heddle: no?[31m.json: cannot be read: No such file or directory\n");
}

TEST_CASE("errors of an experiment name the file, the place and the expected value; exit code 2") {
  Files files;
  const std::string file = files.write(small_study());
  const auto error = [&](const std::string& set) {
    const Called called = call({"validate", file, "--set", set});
    CHECK(called.code == 2);
    return called.err;
  };
  CHECK(error("train.bach=3") == "heddle: --set train.bach: unknown key; did you mean \"batch\"?\n");
  CHECK(error("train.batch=\"many\"").find("--set train.batch: expected an integer") != std::string::npos);
  CHECK(error("head.margin.type=arcface").ends_with("got \"arcface\"; that is type \"combined\" with m2\n"));
  CHECK(error("memory_budget=10MB") ==
        "heddle: --set memory_budget: expected a number of bytes from 0 to 9007199254740992, got \"10MB\"\n");
  CHECK(error("model.type=resnet19").find("did you mean \"resnet18\"?") != std::string::npos);
  CHECK(error("head.classes=5") ==
        fmt::format("heddle: {}: expected at least the data's 6 people, got 5\n", "--set head.classes"));
  CHECK(error("data.image=[2,8,8]") ==
        "heddle: --set data.image: /data/image/0: expected 1 (gray) or 3 (colour) channels, got 2\n");
  CHECK(error("data.train_per_identity=9223372036854775807").find("--set data.train_per_identity: expected") !=
        std::string::npos);
  CHECK(call({"validate", file, "--set", "clock=virtual", "--set", "threads=2"}).err ==
        "heddle: --set threads: expected 1, got 2: a virtual clock sees the CPU time of a rank's own thread only\n");
  CHECK(error("ranks.speed=[1,1,2]") ==
        "heddle: --set ranks.speed: expected at most 2 speeds, one for each rank, got 3\n");
  CHECK(error("mesh={\"dp\": 1024, \"tp\": 1024}")
            .find("small.json: /mesh: expected at most 1024 ranks, got 1024 x 1 x 1024\n") != std::string::npos);
  CHECK(error("mesh={\"dp\": 2, \"pp\": 1024}")
            .find("small.json: /mesh: expected at most 1024 ranks, got 2 x 1024 x 1\n") != std::string::npos);
  CHECK(error("ranks.memory_budget=[1,1,2]") ==
        "heddle: --set ranks.memory_budget: expected at most 2 numbers, one for each rank, got 3\n");
  CHECK(error("ranks.speed=[0]") ==
        "heddle: --set ranks.speed: /ranks/speed/0: expected a number from 1e-06 to 1000000, got 0\n");
  CHECK(error("ranks.jitter=1") == "heddle: --set ranks.jitter: expected a number >= 0 and < 1, got 1\n");
  CHECK(error("links.bandwidth=0") == "heddle: --set links.bandwidth: expected a number from 1 to 1e+18, got 0\n");
  CHECK(error("profile.flops=1e-300") ==
        "heddle: --set profile.flops: expected a number from 1 to 1e+21, got 1e-300\n");
  CHECK(error("clock=sundial") == "heddle: --set clock: expected \"wall\" or \"virtual\", got \"sundial\"\n");
  CHECK(error("timeout=1e300").find("--set timeout: expected") != std::string::npos);
  CHECK(error("device=gpu") ==
        "heddle: --set device: expected \"cpu\", \"cuda\" or \"plan\", got \"gpu\"; did you mean \"cuda\"?\n");
}

TEST_CASE("wrong calls print the error and exit with 2") {
  CHECK(call({"run", "any.json", "--out", ""}).err == "heddle: --out: expected a folder, got \"\"\n");
  CHECK(call({}).err == "heddle: expected a command: see heddle --help\n");
  CHECK(call({"fly"}).code == 2);
  CHECK(call({"run"}).code == 2);
  const Called missing = call({"run", "no/such.json"});
  CHECK(missing.code == 2);
  CHECK(missing.err == "heddle: no/such.json: cannot be read: No such file or directory\n");
  CHECK(call({"list", "modles"}).code == 2);
  CHECK(call({"dat"}).err.ends_with("\"completion\" or \"man\"; did you mean \"data\"?\n"));
  const Called nothing = call({"data"});
  CHECK(nothing.code == 2);
  CHECK(nothing.err == "heddle: expected \"pack\", \"show\" or \"check\" after \"data\"\n");
  const Called unknown = call({"data", "chek", "faces"});
  CHECK(unknown.code == 2);
  CHECK(unknown.err ==
        "heddle: no command \"data chek\": expected \"pack\", \"show\" or \"check\"; did you mean \"check\"?\n");
  CHECK(call({"data", "foo"}).err == "heddle: no command \"data foo\": expected \"pack\", \"show\" or \"check\"\n");
  CHECK(call({"data", "--help"}).code == 0);
  CHECK(call({"help", "train.optimiser"}).code == 2);
  CHECK(call({"help", "run"}).err == "heddle: help run: no such option; see heddle run --help\n");
}

TEST_CASE("a standard output that cannot be written is an error with the exit code of a full disk") {
  std::ostream full(nullptr);  // refuses everything
  std::ostringstream err;
  const std::array<const char*, 3> argv{"heddle", "list", "models"};
  CHECK(run_command_line(static_cast<int>(argv.size()), argv.data(), {.out = full, .err = err, .terminal = {}}) == 5);
  CHECK(err.str() == "heddle: standard output cannot be written: the disk is full, or it was closed\n");
}

TEST_CASE("a job's processes join runs, evaluations, and the benchmark that is named, not what an option is given") {
  using Words = std::vector<std::string_view>;
  CHECK(joins_job(Words{"run", "a.json"}));
  CHECK(joins_job(Words{"eval", "a"}));
  for (const Words& words : {Words{"bench", "collectives"}, Words{"bench", "--threads", "2", "collectives"},
                             Words{"bench", "--threads=2", "collectives"}, Words{"bench", "--json", "collectives"}})
    CHECK(joins_job(words));
  for (const Words& words : {Words{}, Words{"plan", "collectives"}, Words{"bench"}, Words{"bench", "head"},
                             Words{"bench", "data", "--images", "collectives"}})
    CHECK_FALSE(joins_job(words));
}

TEST_CASE("the schema refuses, as the reader does, images of two channels and a head that no axis shares") {
  const Json schema = Json::parse(call({"schema"}).out);
  const Json& set = schema["properties"]["data"]["anyOf"][0]["oneOf"];
  REQUIRE(set.size() > 2);
  for (const Json& data : set)
    CHECK(data["properties"]["image"]["prefixItems"] == Json::parse(R"([{"enum": [1, 3]}])"));
  const Json& over = schema["properties"]["head"]["anyOf"][0]["properties"]["over"]["oneOf"];
  REQUIRE(over.size() == 2);
  CHECK(over[1]["minItems"] == 1);
}

TEST_CASE("a mistyped option is named with the nearest one, in one line") {
  const Called mistyped = call({"export", "results", "--format", "onnx", "--otu", "model.onnx"});
  CHECK(mistyped.code == 2);
  CHECK(mistyped.err == "heddle: --otu: export has no such option; did you mean \"--out\"?\n");
  CHECK(call({"run", "a.json", "--steps=3"}).err == "heddle: --steps: run has no such option\n");
  CHECK(call({"run"}).err == "heddle: FILE is required\n");
  CHECK(call({"run", "--"}).err == "heddle: FILE is required\n");
  CHECK(call({"data", "show", "faces", "--sheat", "x.png"}).err ==
        "heddle: --sheat: data show has no such option; did you mean \"--sheet\"?\n");
  CHECK(call({"--set", "train.steps=3", "run", "a.json"}).err == "heddle: --set: options follow the command\n");
}

TEST_CASE("schema, help, list and version answer on stdout") {
  CHECK(Json::parse(call({"schema"}).out).contains("properties"));
  std::ifstream shipped(test::source_folder() / "experiments/experiment.schema.json");
  std::stringstream text;
  text << shipped.rdbuf();
  CHECK(text.str() == call({"schema"}).out);
  CHECK(call({"help", "train.optimizer"}).out.find("nesterov") != std::string::npos);
  // A type of layers, and a key of another type.
  const std::string of_dropout = call({"help", "model.layers.dropout"}).out;
  CHECK(of_dropout.starts_with("model.layers.dropout\n"));
  CHECK(of_dropout.find("sets values to zero at random") != std::string::npos);
  CHECK(call({"help", "model.layers.attention.dropout"}).out.find("the attention weight") != std::string::npos);
  CHECK(call({"list", "models"}).out.find("iresnet100") != std::string::npos);
  CHECK(call({"list", "layers"}).out.find("global_average_pool") != std::string::npos);
  CHECK(call({"--version"}).out.starts_with("heddle "));
  CHECK(call({"--help"}).code == 0);
}

}  // namespace heddle::test
