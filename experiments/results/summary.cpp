#include "experiments/results/summary.h"

#include <set>

#include <nlohmann/json.hpp>

#include "experiments/results/host.h"
#include "experiments/results/restarts_json.h"
#include "framework/description/describe.h"
#include "framework/description/text.h"
#include "parallel/pipeline/schedule_csv.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

template <class T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

/// The whole part, as an integer if it is one of 64 bits.
OrderedJson whole_json(double value) {
  constexpr double too_large = 0x1p63;
  return value < too_large ? OrderedJson(static_cast<std::int64_t>(value)) : OrderedJson(value);
}

OrderedJson losses_json(const VariantResult& variant) {
  OrderedJson losses = OrderedJson::array();
  for (const double loss : variant.steps.losses()) losses.push_back(loss);  // null if not a number
  return losses;
}

OrderedJson seconds_json(const VariantResult& variant) {
  const auto seconds = step_seconds(variant);
  if (!seconds) return {{"median", nullptr}, {"min", nullptr}, {"max", nullptr}};
  return {{"median", seconds->median}, {"min", seconds->minimum}, {"max", seconds->maximum}};
}

OrderedJson rank_json(const RankResult& rank, bool timed, const std::vector<double>& shares, std::size_t index) {
  OrderedJson coordinates = {{"dp", 0}, {"pp", 0}, {"tp", 0}};
  for (const auto& [axis, position] : rank.coordinates) coordinates[axis] = position;
  OrderedJson peak = {{"total", rank.peak.total()}};
  for (std::size_t i = 0; i < category_count; ++i)
    peak[std::string(name_of(static_cast<Category>(i)))] = rank.peak.bytes[i];
  return {{"rank", rank.rank},
          {"coordinates", coordinates},
          {"peak_bytes", peak},
          {"peak_offloaded_bytes", rank.peak_offloaded},
          {"checkpoint_copy_bytes", rank.checkpoint_copy},
          {"reserved_bytes", or_null(rank.reserved_bytes)},
          {"sent_bytes", rank.sent_bytes},
          {"received_bytes", rank.received_bytes},
          {"busy_seconds", timed ? OrderedJson(rank.busy_seconds) : OrderedJson(nullptr)},
          {"utilisation", index < shares.size() ? OrderedJson(shares[index]) : OrderedJson(nullptr)}};
}

OrderedJson lost_checkpoints_json(const VariantResult& variant) {
  OrderedJson rows = OrderedJson::array();
  for (const LostCheckpoint& lost : variant.lost_checkpoints)
    rows.push_back({{"steps", lost.steps}, {"why", lost.why}});
  return rows;
}

/// The convolutions of all ranks, each once.
OrderedJson convolutions_json(const VariantResult& variant) {
  std::set<ChosenConvolution> chosen;
  for (const RankResult& rank : variant.ranks) chosen.insert(rank.convolutions.begin(), rank.convolutions.end());
  OrderedJson rows = OrderedJson::array();
  for (const auto& [geometry, part, dtype, algorithm, math, workspace, adds_bias] : chosen)
    rows.push_back({{"geometry", geometry},
                    {"part", part},
                    {"dtype", dtype},
                    {"algorithm", algorithm},
                    {"math", math.empty() ? OrderedJson(nullptr) : OrderedJson(math)},
                    {"workspace", workspace},
                    {"adds_bias", adds_bias}});
  return rows;
}

OrderedJson drawn_pairs_json(const std::optional<Verification>& measured) {
  if (!measured) return nullptr;
  OrderedJson tar_at_far = OrderedJson::object();
  for (const TarAtFar& point : measured->tar_at_far) tar_at_far[fmt::format("1e-{}", point.exponent)] = point.tar;
  return {{"accuracy", measured->accuracy},
          {"deviation", measured->deviation},
          {"threshold", measured->threshold},
          {"tar_at_far", tar_at_far}};
}

/// Rates for which there are too few pairs are null.
OrderedJson verified_json(const std::string& name, const VerifiedSet& set) {
  const Verification& measured = set.verification;
  OrderedJson tar_at_far = OrderedJson::object();
  for (int exponent = 1; exponent <= max_far_exponent; ++exponent) tar_at_far[fmt::format("1e-{}", exponent)] = nullptr;
  for (const TarAtFar& point : measured.tar_at_far) tar_at_far[fmt::format("1e-{}", point.exponent)] = point.tar;
  return {{"name", name},
          {"pairs", measured.pairs},
          {"genuine_pairs", set.genuine},
          {"impostor_pairs", set.impostors},
          {"accuracy", measured.accuracy},
          {"deviation", measured.deviation},
          {"threshold", measured.threshold},
          {"threshold_from", set.threshold_from.empty() ? OrderedJson(nullptr) : OrderedJson(set.threshold_from)},
          {"best_threshold", set.best_threshold},
          {"area_under_roc", set.roc.area},
          {"tar_at_far", tar_at_far}};
}

OrderedJson identified_json(const std::string& name, const Identification& set) {
  OrderedJson rates = OrderedJson::object();
  for (std::size_t i = 0; i < reported_ranks.size(); ++i) rates[fmt::format("{}", reported_ranks[i])] = set.rates[i];
  OrderedJson tpir_at_fpir = OrderedJson::object();
  for (const TpirAtFpir& point : set.tpir_at_fpir) tpir_at_fpir[fmt::format("1e-{}", point.exponent)] = point.tpir;
  return {{"name", name},
          {"gallery", set.gallery},
          {"distractors", set.distractors},
          {"known_probes", set.known},
          {"unknown_probes", set.unknown},
          {"rates", rates},
          {"tpir_at_fpir", tpir_at_fpir}};
}

OrderedJson all_sets_json(const std::vector<EvaluatedSet>& sets) {
  OrderedJson rows = OrderedJson::array();
  for (const EvaluatedSet& set : sets)
    rows.push_back(set.verified ? verified_json(set.name, *set.verified) : identified_json(set.name, *set.identified));
  return rows;
}

/// The weights that were evaluated, if they are not those of the last step.
constexpr const char* ema = "ema";

OrderedJson evaluation_json(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nullptr;
  OrderedJson json{{"rank1", or_null(evaluation->rank1)}, {"verification", drawn_pairs_json(evaluation->verification)}};
  if (!evaluation->sets.empty()) json["sets"] = all_sets_json(evaluation->sets);
  if (evaluation->best) json["best"] = {{"steps", evaluation->best->steps}, {"accuracy", evaluation->best->accuracy}};
  if (evaluation->is_averaged) json["weights"] = ema;
  return json;
}

OrderedJson sent_json(const std::optional<SentInStep>& sent) {
  if (!sent) return nullptr;
  OrderedJson formula{{"total", sent->formula.total()}};
  for (std::size_t payload = 0; payload < payload_names.size(); ++payload)
    formula[std::string(payload_names[payload])] = sent->formula.model[payload];
  formula["head"] = sent->formula.head;
  formula["stages"] = sent->formula.stages;
  return {{"counted", sent->counted}, {"formula", formula}};
}

OrderedJson head_json(const HeadResult& head) {
  const HeadConfig& config = head.config;
  return {{"classes", config.classes},
          {"features", head.features},
          {"ranks", head.ranks},
          {"copies", head.copies},
          {"parallel", name_of(config.parallel)},
          {"logits", name_of(config.logits)},
          {"stash", config.stash},
          {"rate", config.sample.rate},
          {"weights", name_of(config.weights)},
          {"momentum", name_of(config.momentum)},
          {"product_type", name_of(config.product_type)}};
}

/// One head; or of several a list, each with its data set and its loss.
OrderedJson heads_json(const VariantResult& variant) {
  if (variant.heads.size() < 2) return head_json(variant.heads.empty() ? HeadResult{} : variant.heads.front());
  OrderedJson heads = OrderedJson::array();
  for (std::size_t i = 0; i < variant.heads.size(); ++i) {
    const HeadResult& head = variant.heads[i];
    OrderedJson json{
        {"name", head.name},
        {"samples", head.samples},
        {"loss_weight", head.config.loss_weight},
        {"loss", {{"first", or_null(variant.steps.first_loss(i))}, {"last", or_null(variant.steps.last_loss(i))}}}};
    json.update(head_json(head));
    heads.push_back(std::move(json));
  }
  return heads;
}

/// The keys of a pipeline, null where there is none.
void add_pipeline(OrderedJson& json, const RunResult& run, const VariantResult& variant) {
  const VariantResult* const naive = naive_of(run, variant);
  const auto of = [&](auto member) {
    return variant.pipeline ? OrderedJson((*variant.pipeline).*member) : OrderedJson(nullptr);
  };
  const auto predicted = [&](double StepSeconds::*statistic) {
    return variant.predicted_seconds ? OrderedJson((*variant.predicted_seconds).*statistic) : OrderedJson(nullptr);
  };
  json["schedule"] = of(&PipelineResult::schedule_name);
  json["recompute"] = of(&PipelineResult::recompute);
  json["stages"] = variant.pipeline ? variant.pipeline->stages : 1;
  json["stage_begins"] = of(&PipelineResult::stage_begins);
  json["micro_batches"] = variant.micro_batches;
  json["bubble_fraction"] = or_null(bubble_fraction(variant));
  json["ideal_speedup"] = of(&PipelineResult::ideal_speedup);
  json["kept_micro_batches"] = of(&PipelineResult::kept_micro_batches);
  json["kept_inputs"] = of(&PipelineResult::kept_inputs);
  json["speedup_over_first"] = or_null(speedup(variant, run.variants.front()));
  json["speedup_over_naive"] = naive == nullptr ? OrderedJson(nullptr) : or_null(speedup(variant, *naive));
  json["share_of_ideal"] = or_null(share_of_ideal(run, variant));
  json["predicted_seconds"] = predicted(&StepSeconds::median);
  json["predicted_min_seconds"] = predicted(&StepSeconds::minimum);
}

OrderedJson variant_json(const RunResult& run, const VariantResult& variant) {
  const auto samples = samples_per_second(variant);
  OrderedJson losses = losses_json(variant);
  OrderedJson ranks = OrderedJson::array();
  const std::vector<double> shares = utilisation(variant);
  for (std::size_t i = 0; i < variant.ranks.size(); ++i)
    ranks.push_back(rank_json(variant.ranks[i], samples.has_value() && knows_when_busy(variant), shares, i));
  OrderedJson json{
      {"name", variant.name},
      {"status", name_of(variant.status)},
      {"error", variant.status == VariantResult::Status::ok ? OrderedJson(nullptr) : OrderedJson(variant.error)},
      {"steps", steps_done(variant)},
      {"loss", {{"first", or_null(variant.steps.first_loss())}, {"last", or_null(variant.steps.last_loss())}}},
      {"loss_per_step", losses},
      {"restarts", restarts_json(variant.restarts)},
      {"save_wait_seconds", variant.save_wait},
      {"lost_checkpoints", lost_checkpoints_json(variant)},
      {"skipped_steps", or_null(variant.steps.skipped())},
      {"step_seconds", seconds_json(variant)},
      {"samples_per_second", or_null(samples)},
      {"device", variant.device},
      {"clock", variant.clock},
      {"batch", variant.batch},
      {"head", heads_json(variant)}};
  add_pipeline(json, run, variant);
  json["sent_in_step"] = sent_json(variant.sent_in_step);
  json["ranks"] = std::move(ranks);
  json["evaluation"] = evaluation_json(variant.evaluation);
  if (variant.maximised)
    json["maximised"] = {{"field", variant.maximised->field}, {"value", or_null(variant.maximised->value)}};
  if (variant.flops_per_step) json["flops_per_step"] = whole_json(*variant.flops_per_step);
  if (OrderedJson convolutions = convolutions_json(variant); !convolutions.empty())
    json["convolutions"] = std::move(convolutions);
  return json;
}

OrderedJson host_json() {
  const Host host = this_host();
  return {{"system", host.system},
          {"processor", host.processor},
          {"cores", host.cores},
          {"memory_bytes", host.memory_bytes}};
}

}  // namespace

std::string summary_json(const RunResult& run) {
  OrderedJson versions = OrderedJson::object();
  for (const auto& [name, version] : build_versions()) versions[name] = version;
  for (const auto& [name, version] : run.versions) versions[name] = version;
  OrderedJson variants = OrderedJson::array();
  for (const VariantResult& variant : run.variants) variants.push_back(variant_json(run, variant));
  const OrderedJson summary = {
      {"name", run.name}, {"versions", versions}, {"host", host_json()}, {"variants", variants}};
  return summary.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string sets_json(const VariantResult& variant, const std::string& checkpoint, std::int64_t steps) {
  OrderedJson json{{"name", variant.name},
                   {"checkpoint", checkpoint},
                   {"steps", steps},
                   {"sets", all_sets_json(variant.evaluation.value().sets)}};
  if (variant.evaluation->is_averaged) json["weights"] = ema;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string memory_csv(const RunResult& run) {
  std::string text = "variant,rank,category,bytes\n";
  for (const VariantResult& variant : run.variants) {
    const std::string name = csv_field(variant.name);
    for (const RankResult& rank : variant.ranks)
      for (std::size_t i = 0; i < category_count; ++i)
        text += fmt::format("{},{},{},{}\n", name, rank.rank, name_of(static_cast<Category>(i)), rank.peak.bytes[i]);
  }
  return text;
}

std::string roc_csv(const RunResult& run) {
  std::string lines;
  for (const VariantResult& variant : run.variants) {
    if (!variant.evaluation) continue;
    for (const EvaluatedSet& set : variant.evaluation->sets) {
      if (!set.verified) continue;
      for (const RocPoint& point : set.verified->roc.points)
        lines += fmt::format("{},{},{},{},{}\n", csv_field(variant.name), csv_field(set.name), point.threshold,
                             point.far, point.tar);
    }
  }
  return lines.empty() ? "" : "variant,set,threshold,far,tar\n" + lines;
}

std::string schedule_csv(const VariantResult& variant) {
  if (variant.pipeline) return to_csv(variant.pipeline->schedule);
  std::string row;
  for (std::int64_t i = 0; i < variant.micro_batches; ++i) row += fmt::format("{}0F{},0B{}", i == 0 ? "" : ",", i, i);
  return row + "\n";
}

}  // namespace heddle
