// `heddle explain`: the planner's figures as a user sees them, compared with the bytes that a run sends.
#include <fstream>
#include <map>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/program/command_line.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/program/explained.h"

namespace heddle::test::explain_test {

namespace {

using test::Json;

using test::call;
using test::Called;
using test::explained;
using test::two_layers;

/// Sums of bytes and seconds over all collectives that stand anywhere in a tree.
void add_collectives(const Json& json, Json& sums) {
  if (json.is_object() && json.contains("operation")) {
    Json& sum = sums[json["of"].get<std::string>()];
    if (sum.is_null()) sum = Json::object();
    sum["bytes"] = sum.value("bytes", std::int64_t{0}) + json["bytes"].get<std::int64_t>();
    sum["seconds"] = sum.value("seconds", 0.0) + json["seconds"].get<double>();
    return;
  }
  if (json.is_structured())
    for (const Json& member : json) add_collectives(member, sums);
}

}  // namespace

TEST_CASE("explain prints layers, the communication between them, and the sums") {
  const Called called = call({"explain"}, two_layers());
  CHECK(called.code == 0);
  CHECK(called.out == R"(small: tp 2, 4 samples in each of 2 micro-batches
layer                      type  placement (tp)  parameters   FLOPs  bytes sent  comm time
input                         -               R           -       -           -          -
flatten                 flatten     replicate R           -       -           -          -
 flatten             no message        R -> R/P                               -          -
layers.0                 linear     column S(1)        1040  32.8 k           -          -
layers.0.relu              relu      group S(1)           -       -           -          -
fc                       linear           row P         136  6.14 k           -          -
 fc            > reduce_scatter       P -> S(0)                           128 B    2.13 ms
 fc                < all_gather       P -> S(0)                           128 B    2.13 ms
head                       head     column S(1)          40  2.56 k       448 B    14.4 ms

one step, one rank  bytes sent     time
activations              704 B  18.7 ms
weights                      -        -
gradients                    -        -
statistics                   -        -
communication            704 B  18.7 ms
computing                    -  41.5 ms
memory per rank: 14.1 KiB of parameters, gradients and optimizer, 2.56 KiB of activations
)");
}

/// A head of a thousand classes on four ranks, on which arithmetic takes all of the time.
Json large_head(const char* patch = "{}") {
  Json experiment = two_layers();
  experiment["mesh"] = {{"dp", 4}};
  experiment["model"].erase("placements");
  experiment["head"]["classes"] = 1000;
  experiment.merge_patch(Json::parse(patch));
  return experiment;
}

TEST_CASE("explain shows a replicated head where its embeddings are") {
  const Called called = call({"explain"}, large_head(R"({"head": {"parallel": "replicated"}})"));
  REQUIRE(called.code == 0);
  const std::size_t row = called.out.find("\nhead ");
  REQUIRE(row != std::string::npos);
  CHECK(called.out.substr(row + 1, 60).find("data S(0)") != std::string::npos);
  CHECK(explained(large_head(R"({"head": {"parallel": "replicated"}})"))["head"]["parallel"] == "replicated");
  CHECK(explained(large_head())["head"]["parallel"] == "sharded");
}

TEST_CASE("explain shows the split of a head, and counts its largest part") {
  const Json split = large_head(R"({"head": {"split": [100, 0, 700, 200]}})");
  const Called called = call({"explain"}, split);
  REQUIRE(called.code == 0);
  CHECK(called.out.find("classes of the head's ranks: 100, 0, 700, 200\n") != std::string::npos);
  CHECK(explained(split)["head"]["split"] == Json::parse("[100, 0, 700, 200]"));
  CHECK(explained(split)["head"]["parameters"] == 700 * 8);
  CHECK(!explained(large_head())["head"].contains("split"));
}

TEST_CASE("a split must have one number for each rank that shares the classes, and their sum") {
  const auto error = [](const char* patch) { return call({"explain"}, large_head(patch)).err; };
  const auto ends = [](const std::string& text, const std::string& end) { return text.ends_with(end); };
  CHECK(ends(error(R"({"head": {"split": [500, 500]}})"),
             "head.split: expected one number of classes per rank that shares them, 4 in all, got 2\n"));
  CHECK(ends(error(R"({"head": {"split": [250, 250, 250, 249]}})"),
             "head.split: expected numbers whose sum is head.classes = 1000, got 999\n"));
  CHECK(ends(error(R"({"head": {"split": [500, 501, 0, -1]}})"),
             "/head/split/3: expected an integer from 0 to 10000000000, got -1\n"));
  CHECK(ends(error(R"({"head": {"parallel": "replicated", "split": [250, 250, 250, 250]}})"),
             "head.split: ranks of a replicated head share no classes: expected none\n"));
  CHECK(error(R"({"head": {"split": [0, 1000], "over": ["tp"]}, "mesh": {"dp": 2, "tp": 2}})").empty());
}

TEST_CASE("explain counts what a rank keeps of the head as it is trained") {
  const auto kept = [](const char* patch) {
    const auto of_classes = [&](std::int64_t classes) {
      Json experiment = large_head(patch);
      experiment["head"]["classes"] = classes;
      return explained(experiment)["totals"]["memory"]["parameters"].get<std::int64_t>();
    };
    return of_classes(2000) - of_classes(1000);  // the model's part is the same
  };
  constexpr std::int64_t table = 1000 * 8 * 4;
  CHECK(kept("{}") == 2 * table / 4);
  CHECK(kept(R"({"train": {"optimizer": {"type": "adamw"}}})") == 3 * table / 4);
  CHECK(kept(R"({"train": {"forward_only": true}})") == table / 4);
  CHECK(kept(R"({"head": {"parallel": "replicated"}})") == 3 * table);
  CHECK(kept(R"({"head": {"parallel": "replicated"}, "train": {"forward_only": true}})") == table);
  CHECK(kept(R"({"head": {"parallel": "replicated"}, "train": {"shard": "optimizer"}})") == 2 * table + table / 4);
  constexpr std::int64_t biases = 1000 * 4;
  const char* const plain = R"({"head": {"parallel": "replicated", "normalize": false, "bias": true,
                                        "margin": {"scale": 1}, "state": {"weights": "f16", "momentum": "f16"}},
                                "train": {"shard": "optimizer"}})";
  CHECK(kept(plain) == table / 2 + table + table / 2 / 4 + 2 * biases + biases / 4);
}

TEST_CASE("explain counts the products that a head's way computes, and those for a norm, and none of a forward pass") {
  const auto flops = [](const char* patch) { return explained(large_head(patch))["head"]["flops"].get<double>(); };
  const double product = 2.0 * 4 * 2 * 250 * 8;  // a rank's classes, all samples
  CHECK(flops("{}") == 4 * product);
  CHECK(flops(R"({"head": {"logits": "fused", "stash": true}})") == 3 * product);
  CHECK(flops(R"({"train": {"clip": {"norm": 1}}})") == 6 * product);
  CHECK(flops(R"({"head": {"logits": "fused", "stash": true}, "train": {"clip": {"norm": 1}}})") == 4 * product);
  CHECK(flops(R"({"head": {"parallel": "replicated"}, "train": {"clip": {"norm": 1}}})") == 4 * product);
  const Json forward = explained(large_head(R"({"train": {"forward_only": true}})"))["head"];
  CHECK(forward["flops"] == 0);
  CHECK(forward["collectives"].empty());
}

TEST_CASE("explain counts only the sampled classes of a head that samples") {
  const auto seconds = [](double rate) {
    Json experiment = large_head(R"({"profile": {"flops": 1e18, "bandwidth": 1e6}})");
    experiment["head"]["classes"] = 1000000;
    experiment["head"]["sample"] = {{"rate", rate}};
    return explained(experiment)["head"]["seconds"].get<double>();
  };
  CHECK(seconds(0.1) / seconds(1) == close_to(0.1).epsilon(1e-3));
}

TEST_CASE("explain lists the gradient of a replicated head as it is sent") {
  const Json head = explained(large_head(R"({"head": {"parallel": "replicated"}})"))["head"];
  std::map<std::string, std::int64_t> bytes;
  for (const Json& collective : head["collectives"]) bytes[collective["of"]] += collective["bytes"].get<std::int64_t>();
  CHECK(bytes["gradients"] == 2 * 3 * 1000 * 8 * 4 / 4);
  CHECK(bytes["activations"] == 2 * 3 * 4);  // the loss of each micro-batch
}

TEST_CASE("explain's totals are the sums of its rows") {
  Json experiment = two_layers();
  experiment["mesh"]["dp"] = 2;
  experiment["model"]["embedding_norm"] = true;
  experiment["model"]["placements"].push_back({{"layers", "layers.0"}, {"parallel", "parameter"}, {"over", "dp"}});
  const Json variant = explained(experiment);
  Json sums;
  for (const char* part : {"layers", "head", "redistributions"}) add_collectives(variant[part], sums);
  for (const char* payload : {"activations", "weights", "gradients", "statistics"}) {
    CAPTURE(payload);
    CHECK(variant["totals"][payload]["bytes"] == sums[payload]["bytes"]);
    CHECK(variant["totals"][payload]["seconds"].get<double>() == close_to(sums[payload]["seconds"].get<double>()));
    CHECK(variant["totals"][payload]["bytes"] > 0);
  }
}

TEST_CASE("a rank sends in a step the bytes that explain prints") {
  const std::vector<std::string> sets{"{}",
                                      R"({"mesh": {"dp": 2, "tp": 2}})",
                                      R"({"mesh": {"dp": 2, "tp": 1}, "train": {"shard": "optimizer"}})",
                                      R"({"mesh": {"dp": 2}, "model": {"embedding_norm": true}})",
                                      R"({"mesh": {"dp": 2}, "head": {"logits": "gathered"}})",
                                      R"({"mesh": {"dp": 2}, "head": {"logits": "transposed"}})",
                                      R"({"mesh": {"dp": 2}, "head": {"logits": "fused"}})",
                                      R"({"mesh": {"dp": 4, "tp": 1}, "model": {"placements": [
                                            {"layers": "*", "parallel": "data"},
                                            {"layers": "fc", "parallel": "parameter"}]}})"};
  for (const std::string& patch : sets) {
    CAPTURE(patch);
    Json experiment = two_layers();
    experiment["train"]["batch"] = 16;
    experiment.merge_patch(Json::parse(patch));
    const auto sent = [&](int steps) {
      const Called called = call({"plan", "--json", "--set", fmt::format("train.steps={}", steps)}, experiment);
      REQUIRE(called.code == 0);
      return Json::parse(called.out)["variants"][0]["ranks"][0]["sent_bytes"].get<std::int64_t>();
    };
    CHECK(explained(experiment)["totals"]["communication"]["bytes"] == sent(2) - sent(1));
  }
}

TEST_CASE("explain names the axes along which the classes are shared, and counts the sums over their copies") {
  Json experiment = two_layers();
  experiment["mesh"] = {{"dp", 2}, {"tp", 2}};
  experiment["head"]["over"] = {"tp"};
  const Json head = explained(experiment)["head"];
  CHECK(head["parallel"] == "sharded");
  CHECK(head["over"] == Json{"tp"});
  Json gradients;
  for (const Json& collective : head["collectives"])
    if (collective["of"] == "gradients") gradients = collective;
  CHECK(gradients["operation"] == "all_reduce");
  CHECK(gradients["bytes"] == 5 * 8 * 4);
  const std::string text = call({"explain"}, experiment).out;
  const std::size_t begin = text.find("\nhead ") + 1;
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  CHECK(line.find("data S(0), column S(1)") != std::string::npos);
}

/// The two layers on two stages.
Json two_stages() {
  Json experiment = two_layers();
  experiment["mesh"] = {{"pp", 2}};
  experiment["model"].erase("placements");
  experiment["model"]["stages"] = {{"balance", {1, 1}}};
  experiment["head"]["over"] = {"dp", "tp"};
  return experiment;
}

TEST_CASE("explain prints stages and the messages between them") {
  const Called called = call({"explain"}, two_stages());
  CHECK(called.code == 0);
  CHECK(called.out == R"(small: pp 2, 4 samples in each of 2 micro-batches
layer                    type  parameters   FLOPs  bytes sent  comm time
input                       -           -       -           -          -
flatten               flatten           -       -           -          -
layers.0               linear        2080  65.5 k           -          -
layers.0.relu            relu           -       -           -          -
 layers.0.relu  > send 0 -> 1                        1.00 KiB    3.02 ms
 layers.0.relu  < send 1 -> 0                        1.00 KiB    3.02 ms
fc                     linear         264  12.3 k           -          -
head                     head          80  5.12 k           -          -

one step, all stages  bytes sent     time
activations                    -        -
weights                        -        -
gradients                      -        -
statistics                     -        -
between stages          2.00 KiB  6.05 ms
communication           2.00 KiB  6.05 ms
computing                      -  83.0 ms

stage  pp rank  first layer  layers  parameters  step time (ms)  peak memory (KiB)
0            0      flatten       3        2080            65.5               29.4
1            1           fc       1         344            17.4               4.22
)");
}

TEST_CASE("explain prints the ranks of both copies of a stage, and the sums of their gradients") {
  Json experiment = two_stages();
  experiment["pipeline"]["schedule"] = "chimera";
  const Called called = call({"explain"}, experiment);
  CHECK(called.code == 0);
  CHECK(
      called.out.starts_with("small: pp 2, 4 samples in each of 2 micro-batches, half of them in each of two copies of "
                             "the stages\n"));
  CHECK(called.out.find("layers.0               linear        2080  32.8 k    8.12 KiB") != std::string::npos);
  CHECK(called.out.find(" layers.0.relu  > send 0 -> 1                           512 B") != std::string::npos);
  CHECK(called.out.find("one step, all stages of a copy  bytes sent") != std::string::npos);
  CHECK(called.out.find("\n1         1, 0           fc       1         344 ") != std::string::npos);
  const Json variant = explained(experiment);
  CHECK(variant["stages"][1]["pp"] == 1);
  CHECK(variant["stages"][1]["second_pp"] == 0);
  CHECK(!explained(two_stages())["stages"][1].contains("second_pp"));
}

TEST_CASE("a cut by time leaves a slow rank less to do") {
  Json experiment = two_stages();
  experiment["model"].erase("stages");
  experiment["clock"] = "virtual";
  const auto second_begins_with = [&experiment] {
    return explained(experiment)["stages"][1]["first_layer"].get<std::string>();
  };
  CHECK(second_begins_with() == "layers.0.relu");
  experiment["ranks"] = {{"speed", {0.01}}};
  CHECK(second_begins_with() == "layers.0");
}

TEST_CASE("the ranks on both sides of a cut send the bytes that explain prints") {
  const Json experiment = two_stages();
  const auto sent = [&](int steps) {
    const Called called = call({"plan", "--json", "--set", fmt::format("train.steps={}", steps)}, experiment);
    REQUIRE(called.code == 0);
    std::vector<std::int64_t> bytes;
    const Json summary = Json::parse(called.out);
    for (const Json& rank : summary["variants"][0]["ranks"]) bytes.push_back(rank["sent_bytes"]);
    return bytes;
  };
  const Json variant = explained(experiment);
  CHECK(variant["layers"][2]["stage"] == 0);
  CHECK(variant["layers"][3]["stage"] == 1);
  CHECK(variant["stages"][1]["first_layer"] == "fc");
  const Json& cut = variant["cuts"][0];
  CHECK(cut["values"] == Json{"layers.0.relu"});
  CHECK(cut["forward"]["bytes"] == sent(2)[0] - sent(1)[0]);
  const std::int64_t loss = 8;  // goes to rank 0, too
  CHECK(cut["backward"]["bytes"] == sent(2)[1] - sent(1)[1] - loss);
  CHECK(cut["forward"]["bytes"] == 2 * 4 * 32 * 4);
}

TEST_CASE("explain reports what does not fit, and where") {
  Json experiment = two_layers();
  experiment["memory_budget"] = 5000;
  CHECK(call({"explain", "--placements", "auto"}, experiment).err ==
        "heddle: small: the model: no placement fits into 4.57 KiB per rank, the least that is possible is 15.3 KiB "
        "(the head takes 320 B of the 4.88 KiB of memory_budget)\n");
  experiment = two_layers();
  experiment["model"]["placements"][0] = {{"layers", "layers.0"}, {"parallel", "group"}};
  const Called called = call({"explain"}, experiment);
  CHECK(called.code == 2);
  CHECK(called.err.find("layers.0: cannot be placed as group over tp (2 ranks): it has one group only") !=
        std::string::npos);
  CHECK(call({"explain", "--placements", "best"}, two_layers()).code == 2);
}

TEST_CASE("explain, plan and run say once which pixels a vision transformer does not read") {
  Json experiment = two_layers();
  experiment.erase("mesh");
  experiment["data"]["image"] = {1, 8, 11};
  experiment["model"] = {{"type", "vit"}, {"features", 8}, {"blocks", 1}, {"heads", 2}, {"patch", 3}, {"embedding", 4}};
  experiment["train"]["save"] = false;
  experiment["variants"] = {{{"name", "a"}, {"patch", Json::object()}}, {{"name", "b"}, {"patch", {{"seed", 5}}}}};
  const std::string warning =
      "heddle: warning: model.patch: 6 x 9 of the 8 x 11 pixels of an image are read, because the others do not fill a "
      "patch\n";
  const Scratch folder;
  const std::vector<std::vector<std::string>> commands{
      {"explain"}, {"plan"}, {"run", "--out", (folder / "out").string()}};
  for (const std::vector<std::string>& command : commands) {
    const Called called = call(command, experiment);
    CHECK_MESSAGE(called.code == 0, called.err);
    const std::size_t at = called.err.find(warning);
    CHECK(at != std::string::npos);
    CHECK(called.err.find("warning", at + warning.size()) == std::string::npos);
  }
  experiment["data"]["image"] = {1, 9, 9};
  CHECK(call({"plan"}, experiment).err.find("warning") == std::string::npos);
  experiment["model"] = {{"type", "vit_b_16"}};
  experiment["data"]["image"] = {1, 16, 40};
  CHECK(call({"plan"}, experiment).err.find("16 x 32 of the 16 x 40 pixels") != std::string::npos);
}

}  // namespace heddle::test::explain_test
