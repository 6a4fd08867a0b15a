#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/results/event_file.h"
#include "experiments/results/results_folder.h"
#include "experiments/results/summary.h"
#include "experiments/results/trace.h"
#include "experiments/training/ranks/gather_ranks.h"
#include "framework/description/text.h"
#include "parallel/pipeline/schedule_csv.h"
#include "tests/support/results/sample_results.h"
#include "tests/support/scratch.h"

namespace heddle::test::results_test {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

/// `a.b` for every key of nested objects; `[]` for the elements of a list, taken from its first.
std::vector<std::string> keys_of(const OrderedJson& json, const std::string& prefix = "") {
  std::vector<std::string> keys;
  if (json.is_array() && !json.empty()) return keys_of(json[0], prefix + "[]");
  if (!json.is_object()) return {prefix};
  for (const auto& [key, value] : json.items())
    for (const std::string& inner : keys_of(value, prefix.empty() ? key : prefix + "." + key)) keys.push_back(inner);
  return keys;
}

TEST_CASE("summary.json has the stable keys in their order, and no others") {
  const OrderedJson summary = OrderedJson::parse(summary_json(run_result()));
  CHECK(keys_of(summary) == std::vector<std::string>{"name",
                                                     "versions.heddle",
                                                     "versions.compiler",
                                                     "host.system",
                                                     "host.processor",
                                                     "host.cores",
                                                     "host.memory_bytes",
                                                     "variants[].name",
                                                     "variants[].status",
                                                     "variants[].error",
                                                     "variants[].steps",
                                                     "variants[].loss.first",
                                                     "variants[].loss.last",
                                                     "variants[].loss_per_step[]",
                                                     "variants[].restarts",
                                                     "variants[].save_wait_seconds",
                                                     "variants[].lost_checkpoints",
                                                     "variants[].skipped_steps",
                                                     "variants[].step_seconds.median",
                                                     "variants[].step_seconds.min",
                                                     "variants[].step_seconds.max",
                                                     "variants[].samples_per_second",
                                                     "variants[].device",
                                                     "variants[].clock",
                                                     "variants[].batch",
                                                     "variants[].head.classes",
                                                     "variants[].head.features",
                                                     "variants[].head.ranks",
                                                     "variants[].head.copies",
                                                     "variants[].head.parallel",
                                                     "variants[].head.logits",
                                                     "variants[].head.stash",
                                                     "variants[].head.rate",
                                                     "variants[].head.weights",
                                                     "variants[].head.momentum",
                                                     "variants[].head.product_type",
                                                     "variants[].schedule",
                                                     "variants[].recompute",
                                                     "variants[].stages",
                                                     "variants[].stage_begins",
                                                     "variants[].micro_batches",
                                                     "variants[].bubble_fraction",
                                                     "variants[].ideal_speedup",
                                                     "variants[].kept_micro_batches",
                                                     "variants[].kept_inputs",
                                                     "variants[].speedup_over_first",
                                                     "variants[].speedup_over_naive",
                                                     "variants[].share_of_ideal",
                                                     "variants[].predicted_seconds",
                                                     "variants[].predicted_min_seconds",
                                                     "variants[].sent_in_step",
                                                     "variants[].ranks[].rank",
                                                     "variants[].ranks[].coordinates.dp",
                                                     "variants[].ranks[].coordinates.pp",
                                                     "variants[].ranks[].coordinates.tp",
                                                     "variants[].ranks[].peak_bytes.total",
                                                     "variants[].ranks[].peak_bytes.parameters",
                                                     "variants[].ranks[].peak_bytes.gradients",
                                                     "variants[].ranks[].peak_bytes.optimizer",
                                                     "variants[].ranks[].peak_bytes.activations",
                                                     "variants[].ranks[].peak_bytes.workspace",
                                                     "variants[].ranks[].peak_bytes.communication",
                                                     "variants[].ranks[].peak_offloaded_bytes",
                                                     "variants[].ranks[].checkpoint_copy_bytes",
                                                     "variants[].ranks[].reserved_bytes",
                                                     "variants[].ranks[].sent_bytes",
                                                     "variants[].ranks[].received_bytes",
                                                     "variants[].ranks[].busy_seconds",
                                                     "variants[].ranks[].utilisation",
                                                     "variants[].evaluation.rank1",
                                                     "variants[].evaluation.verification.accuracy",
                                                     "variants[].evaluation.verification.deviation",
                                                     "variants[].evaluation.verification.threshold",
                                                     "variants[].evaluation.verification.tar_at_far.1e-3",
                                                     "variants[].evaluation.verification.tar_at_far.1e-4"});
}

TEST_CASE("summary.json has the measurements: times without the first step, speed relative to the first variant") {
  const OrderedJson summary = OrderedJson::parse(summary_json(run_result()));
  CHECK(summary["name"] == "study");
  const OrderedJson& sharded = summary["variants"][1];
  CHECK(sharded["status"] == "ok");
  CHECK(sharded["error"].is_null());
  CHECK(sharded["steps"] == 3);
  CHECK(sharded["loss"] == OrderedJson{{"first", 40.5}, {"last", 20.125}});
  CHECK(sharded["loss_per_step"] == OrderedJson{40.5, 30.25, 20.125});
  CHECK(sharded["step_seconds"] == OrderedJson{{"median", 0.5}, {"min", 0.25}, {"max", 0.75}});
  CHECK(sharded["samples_per_second"] == 128.0);
  CHECK(sharded["clock"] == "wall");
  CHECK(sharded["bubble_fraction"] == 0.0);
  CHECK(sharded["ideal_speedup"].is_null());
  CHECK(sharded["speedup_over_first"] == 2.0);
  CHECK(sharded["evaluation"].is_null());
  CHECK(sharded["sent_in_step"] == OrderedJson{{"counted", 21 * mebi},
                                               {"formula",
                                                {{"total", 21 * mebi},
                                                 {"activations", mebi},
                                                 {"weights", 2 * mebi},
                                                 {"gradients", 3 * mebi},
                                                 {"statistics", 4 * mebi},
                                                 {"head", 11 * mebi},
                                                 {"stages", 0}}}});
  const OrderedJson& rank = sharded["ranks"][3];
  CHECK(rank["coordinates"] == OrderedJson{{"dp", 3}, {"pp", 0}, {"tp", 0}});
  CHECK(rank["peak_bytes"]["total"] == 13 * mebi + 512);
  CHECK(rank["peak_bytes"]["activations"] == 4 * mebi);
  CHECK(rank["reserved_bytes"] == 48 * mebi);
  CHECK(rank["sent_bytes"] == 1003);
  CHECK(rank["received_bytes"] == 2003);
  CHECK(rank["busy_seconds"] == 1.5);
}

TEST_CASE("summary.json gives every false accept rate of a set, null where its pairs are too few, and the best steps") {
  RunResult run = run_result();
  run.variants[0].evaluation->sets = {evaluated_set("faces")};
  run.variants[0].evaluation->best = BestCheckpoint{.steps = 40, .accuracy = 0.5};
  run.variants[0].evaluation->rank1.reset();
  run.variants[0].evaluation->verification.reset();
  const OrderedJson expected = OrderedJson::parse(R"({
    "rank1": null, "verification": null,
    "sets": [{"name": "faces", "pairs": 6000, "genuine_pairs": 3000, "impostor_pairs": 3000, "accuracy": 0.875,
              "deviation": 0.0125, "threshold": 1.25, "threshold_from": "other", "best_threshold": 1.5,
              "area_under_roc": 0.9375,
              "tar_at_far": {"1e-1": 0.95, "1e-2": 0.9, "1e-3": 0.8, "1e-4": null, "1e-5": null, "1e-6": null}}],
    "best": {"steps": 40, "accuracy": 0.5}})");
  CHECK(OrderedJson::parse(summary_json(run))["variants"][0]["evaluation"] == expected);
  run.variants[0].evaluation->sets[0].verified->threshold_from.clear();
  const OrderedJson alone = OrderedJson::parse(sets_json(run.variants[0], "out/checkpoint", 40));
  CHECK(alone["checkpoint"] == "out/checkpoint");
  CHECK(alone["steps"] == 40);
  CHECK(alone["sets"][0]["threshold_from"].is_null());
  run.variants[0].evaluation->sets = {identified_set("gallery")};
  CHECK(OrderedJson::parse(sets_json(run.variants[0], "", 1))["sets"][0] == OrderedJson::parse(R"({
    "name": "gallery", "gallery": 1000, "distractors": 900, "known_probes": 50, "unknown_probes": 20,
    "rates": {"1": 0.5, "5": 0.625, "10": 0.75, "20": 1.0}, "tpir_at_fpir": {"1e-1": 0.25}})"));
  CHECK(roc_csv(run).empty());
}

TEST_CASE("values that were not measured are null, also in a variant that failed and if a loss is not a number") {
  RunResult run = run_result();
  run.variants[1].steps.push_back(step_record(3, std::numeric_limits<double>::quiet_NaN(), 1));
  run.variants[0].evaluation->verification.reset();
  const OrderedJson summary = OrderedJson::parse(summary_json(run));
  CHECK(summary["variants"][0]["evaluation"] == OrderedJson{{"rank1", 0.99}, {"verification", nullptr}});
  CHECK(summary["variants"][1]["loss"]["last"].is_null());
  run.variants[1].pipeline.emplace();  // without the ranks' busy times
  CHECK(OrderedJson::parse(summary_json(run))["variants"][1]["bubble_fraction"].is_null());
  const OrderedJson& failed = summary["variants"][2];
  CHECK(failed["status"] == "out_of_memory");
  CHECK(failed["error"] == "rank 1: out of memory");
  CHECK(failed["steps"] == 0);
  CHECK(failed["loss_per_step"] == OrderedJson::array());
  CHECK(failed["ranks"] == OrderedJson::array());
  for (const char* key : {"samples_per_second", "speedup_over_first", "sent_in_step", "evaluation"})
    CHECK(failed[key].is_null());
  for (const char* key : {"median", "min", "max"}) CHECK(failed["step_seconds"][key].is_null());
  for (const char* key : {"first", "last"}) CHECK(failed["loss"][key].is_null());
}

ChosenConvolution chosen_convolution(const std::string& part, std::int64_t workspace) {
  return {.geometry = "[8,56,56,64] -> [8,56,56,64], kernel 3x3, stride 1x1, padding 1x1",
          .part = part,
          .dtype = "bf16",
          .algorithm = "implicit_precomp_gemm",
          .math = "tensor_op",
          .workspace = workspace,
          .adds_bias = true};
}

TEST_CASE("summary.json says how convolutions were computed where that was chosen: those of all ranks, each once") {
  RunResult run = run_result();
  const ChosenConvolution forward = chosen_convolution("forward", 512);
  run.variants[1].ranks[0].convolutions = {forward};
  run.variants[1].ranks[1].convolutions = {
      {.geometry = forward.geometry, .part = "backward_input", .dtype = "f64", .algorithm = "plain"}, forward};
  const OrderedJson summary = OrderedJson::parse(summary_json(run));
  CHECK_FALSE(summary["variants"][0].contains("convolutions"));
  CHECK(summary["variants"][1]["convolutions"] == OrderedJson{{{"geometry", forward.geometry},
                                                               {"part", "backward_input"},
                                                               {"dtype", "f64"},
                                                               {"algorithm", "plain"},
                                                               {"math", nullptr},
                                                               {"workspace", 0},
                                                               {"adds_bias", false}},
                                                              {{"geometry", forward.geometry},
                                                               {"part", "forward"},
                                                               {"dtype", "bf16"},
                                                               {"algorithm", "implicit_precomp_gemm"},
                                                               {"math", "tensor_op"},
                                                               {"workspace", 512},
                                                               {"adds_bias", true}}});
}

TEST_CASE("a rank's row is sent between processes unchanged") {
  RankResult sent = rank_result(1, mebi);
  sent.busy_in_step = {0.5, 0.25};
  sent.first_busy_step = 7;
  sent.trace = {{"conv", false, 1, 0.5, 0, {}}, {"send", true, 1.5, 0.25, 77, MessageName{0, 1, 5}}};
  sent.convolutions = {chosen_convolution("forward", 512), chosen_convolution("backward_weight", 0)};
  RankResult came;
  deserialize(serialized(sent), came);
  CHECK(came.peak.bytes == sent.peak.bytes);
  CHECK(came.reserved_bytes == 48 * mebi);
  CHECK(came.sent_bytes == 1001);
  CHECK(came.received_bytes == 2001);
  CHECK(came.busy_seconds == 1.5);
  CHECK(came.busy_in_step == sent.busy_in_step);
  CHECK(came.first_busy_step == 7);
  REQUIRE(came.trace.size() == 2);
  CHECK(came.trace[0].name == "conv");
  CHECK_FALSE(came.trace[0].message);
  CHECK(came.trace[1].bytes == 77);
  REQUIRE(came.trace[1].message);
  CHECK(came.trace[1].message->number == 5);
  CHECK(came.convolutions == sent.convolutions);
}

TEST_CASE("memory.csv has one line per category, and quotes what CSV needs quoted") {
  RunResult run;
  run.variants = {variant_result("a,\"b\"", 1, 1)};
  CHECK(memory_csv(run) ==
        "variant,rank,category,bytes\n"
        "\"a,\"\"b\"\"\",0,parameters,4194304\n"
        "\"a,\"\"b\"\"\",0,gradients,3145728\n"
        "\"a,\"\"b\"\"\",0,optimizer,2097152\n"
        "\"a,\"\"b\"\"\",0,activations,1048576\n"
        "\"a,\"\"b\"\"\",0,workspace,512\n"
        "\"a,\"\"b\"\"\",0,communication,0\n");
}

TEST_CASE("schedule.csv without stages has one row, however many data-parallel ranks there are, and reads back") {
  const std::string text = schedule_csv(variant_result("a", 2, 1));
  CHECK(text == "0F0,0B0,0F1,0B1\n");
  CHECK(to_csv(from_csv(text, "schedule.csv")) == text);
}

/// What stands in trace.json.
OrderedJson written_trace(const RunResult& run) {
  const Scratch scratch;
  AtomicFile file(scratch / "trace.json");
  write_trace(file, run);
  file.commit();
  return OrderedJson::parse(read_file(scratch / "trace.json", mebi));
}

TEST_CASE("trace.json: one process per rank, a track for compute and one for messages, variants one after another") {
  RunResult run = run_result();
  const Span compute{.name = "conv\"1\"", .is_communication = false, .begin_seconds = 1, .seconds = 0.5, .bytes = 0};
  const Span message{
      .name = "all_reduce", .is_communication = true, .begin_seconds = 1.5, .seconds = 0.25, .bytes = 77};
  for (VariantResult& variant : run.variants)
    for (RankResult& rank : variant.ranks) rank.trace = {compute, message};
  const OrderedJson trace = written_trace(run);
  std::vector<OrderedJson> intervals;
  int processes = 0;
  for (const OrderedJson& event : trace["traceEvents"]) {
    if (event["ph"] == "X") intervals.push_back(event);
    processes += event["name"] == "process_name" ? 1 : 0;
  }
  CHECK(processes == 4);
  REQUIRE(intervals.size() == 10);
  CHECK(intervals[0] ==
        OrderedJson::parse(R"({"ph":"X","name":"conv\"1\"","cat":"compute","pid":0,"tid":0,"ts":1e6,"dur":5e5,
                                        "args":{"variant":"serial"}})"));
  CHECK(intervals[1] ==
        OrderedJson::parse(R"({"ph":"X","name":"all_reduce","cat":"communication","pid":0,"tid":1,"ts":1.5e6,
                                        "dur":2.5e5,"args":{"variant":"serial","bytes":77}})"));
  CHECK(intervals[9]["pid"] == 3);
  CHECK(intervals[2]["ts"] == 1.75e6);  // where the first variant ended
}

TEST_CASE("trace.json: no span of communication overlaps another on its track, and each track has a name") {
  RunResult run;
  run.variants.resize(1);
  run.variants[0].ranks.resize(1);
  const auto message = [](double begin, double seconds) {
    return Span{.name = "all_reduce", .is_communication = true, .begin_seconds = begin, .seconds = seconds, .bytes = 8};
  };
  // Two overlap, the third lies within the second, and the last, recorded before it, follows the first at once.
  run.variants[0].ranks[0].trace = {message(1, 2), message(2, 4), message(3, 1), message(2.5, 1), message(6, 1)};
  const OrderedJson trace = written_trace(run);
  std::map<int, std::vector<std::pair<double, double>>> tracks;
  std::map<int, std::string> names;
  for (const OrderedJson& event : trace["traceEvents"]) {
    if (event["ph"] == "X")
      tracks[event["tid"]].emplace_back(event["ts"], event["ts"].get<double>() + event["dur"].get<double>());
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  }
  CHECK(tracks.size() == 3);
  for (auto& [track, spans] : tracks) {
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i].first >= spans[i - 1].second);
  }
  CHECK(names[1] == "communication");
  CHECK(names[4] == "communication 2");
  CHECK(names[7] == "communication 3");
  CHECK(names[2] == "sends");
}

TEST_CASE("trace.json has an arrow from each send to its receive, if both were recorded, in each variant anew") {
  RunResult run;
  run.variants.resize(2);
  const auto span = [](const char* name, double begin, double seconds, MessageName message) {
    return Span{name, true, begin, seconds, 8, message};
  };
  for (VariantResult& variant : run.variants) {
    variant.ranks.resize(2);
    variant.ranks[1].rank = 1;
    variant.ranks[0].trace = {span("send", 1, 1, {0, 1, 5}), span("send", 2, 1, {0, 1, 6}),
                              span("recv", 4, 0, {1, 0, 1})};
    variant.ranks[1].trace = {span("recv", 0, 2.5, {0, 1, 5}), span("send", 3, 0.5, {1, 0, 1}),
                              span("recv", 3, 1, {0, 1, 7})};
  }
  const OrderedJson trace = written_trace(run);
  std::string ends;
  for (const OrderedJson& event : trace["traceEvents"]) {
    if (!event.contains("id")) continue;
    CHECK(event.contains("bp") == (event["ph"] == "f"));
    ends += fmt::format("{}{} rank {} track {} at {:.3f}\n", event["ph"].get<std::string>(), event["id"].get<int>(),
                        event["pid"].get<int>(), event["tid"].get<int>(), event["ts"].get<double>());
  }
  CHECK(ends ==
        "s1 rank 0 track 2 at 1000000.000\nf2 rank 0 track 1 at 4000000.000\n"
        "f1 rank 1 track 1 at 2499999.999\ns2 rank 1 track 2 at 3000000.000\n"
        "s3 rank 0 track 2 at 5000000.000\nf4 rank 0 track 1 at 8000000.000\n"
        "f3 rank 1 track 1 at 6499999.999\ns4 rank 1 track 2 at 7000000.000\n");
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

TEST_CASE("the event file is the one that TensorBoard's own writer makes") {
  CHECK(hex(event_file_header(2.5)) ==
        "1800000000000000a37f4b220900000000000004401a0d627261696e2e4576656e743a32b19bcaec");
  const std::vector<std::pair<std::string, double>> scalars{{"loss", 0.5}, {"learning_rate", -2}};
  CHECK(hex(scalars_event(1.0, 300, scalars)) ==
        "31000000000000009d8383e909000000000000f03f10ac022a230a0b0a046c6f7373150000003f0a140a0d6c6561726e696e675f726174"
        "6515000000c0d4e9ee86");
}

}  // namespace
}  // namespace heddle::test::results_test
