// Made-up results of a run, for the tests of what is written and printed.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "experiments/training/measurements/result.h"

namespace heddle::test {

inline constexpr std::int64_t mebi = 1 << 20;

inline StepRecord step_record(std::int64_t step, double loss, double seconds) {
  StepRecord record;
  record.step = step;
  record.loss = loss;
  record.learning_rate = 0.1;
  record.seconds = seconds;
  return record;
}

inline RankResult rank_result(int rank, std::int64_t activations) {
  RankResult result;
  result.rank = rank;
  result.coordinates = {{"dp", rank}};
  result.peak.bytes = {4 * mebi, 3 * mebi, 2 * mebi, activations, 512, 0};
  result.reserved_bytes = 48 * mebi;
  result.sent_bytes = 1000 + rank;
  result.received_bytes = 2000 + rank;
  result.busy_seconds = 1.5;
  return result;
}

inline VariantResult variant_result(const std::string& name, int ranks, double seconds) {
  VariantResult variant;
  variant.name = name;
  variant.batch = 64;
  variant.micro_batches = 2;
  variant.steps = {step_record(0, 40.5, 9.0), step_record(1, 30.25, seconds), step_record(2, 20.125, 3 * seconds)};
  for (int rank = 0; rank < ranks; ++rank) variant.ranks.push_back(rank_result(rank, (rank + 1) * mebi));
  return variant;
}

/// Stages on one rank each, which computes for the share `busy` of each step's time.
inline VariantResult pipeline_variant(const std::string& name, const std::string& schedule, int stages, double seconds,
                                      double busy, double ideal) {
  VariantResult variant = variant_result(name, stages, seconds);
  variant.steps = {step_record(0, 40.5, 9.0), step_record(1, 30.25, seconds), step_record(2, 20.125, seconds)};
  for (RankResult& rank : variant.ranks) {
    rank.coordinates = {{"dp", 0}, {"pp", rank.rank}, {"tp", 0}};
    rank.busy_in_step = {9.0, busy * seconds, busy * seconds};
  }
  variant.pipeline =
      PipelineResult{.schedule_name = schedule, .recompute = "never", .stages = stages, .ideal_speedup = ideal};
  variant.pipeline->schedule.ranks.resize(static_cast<std::size_t>(stages));
  return variant;
}

inline VariantResult failed_variant(const std::string& name) {
  VariantResult variant;
  variant.name = name;
  variant.status = VariantResult::Status::out_of_memory;
  variant.error = "rank 1: out of memory";
  return variant;
}

inline Evaluation evaluation() {
  Verification verification;
  verification.accuracy = 0.975;
  verification.deviation = 0.0125;
  verification.threshold = 1.25;
  verification.tar_at_far = {{3, 0.9}, {4, 0.8}};
  return {.rank1 = 0.99, .verification = verification};
}

inline EvaluatedSet evaluated_set(const std::string& name) {
  Verification verification{.pairs = 6000, .folds = 10, .accuracy = 0.875, .deviation = 0.0125, .threshold = 1.25};
  verification.tar_at_far = {{1, 0.95}, {2, 0.9}, {3, 0.8}};
  EvaluatedSet set{.name = name};
  set.verified = VerifiedSet{
      .verification = verification,
      .threshold_from = "other",
      .genuine = 3000,
      .impostors = 3000,
      .best_threshold = 1.5,
      .roc = {.points = {{-std::numeric_limits<double>::infinity(), 0, 0}, {0.5, 0.25, 1}, {2, 1, 1}}, .area = 0.9375}};
  return set;
}

inline EvaluatedSet identified_set(const std::string& name) {
  EvaluatedSet set{.name = name};
  set.identified = Identification{.gallery = 1000,
                                  .distractors = 900,
                                  .known = 50,
                                  .unknown = 20,
                                  .rates = {0.5, 0.625, 0.75, 1},
                                  .tpir_at_fpir = {{1, 0.25}}};
  return set;
}

inline RunResult run_result() {
  RunResult run;
  run.name = "study";
  run.variants = {variant_result("serial", 1, 0.5), variant_result("sharded", 4, 0.25), failed_variant("too_big")};
  run.variants[0].evaluation = evaluation();
  run.variants[1].sent_in_step =
      SentInStep{21 * mebi, {.model = {mebi, 2 * mebi, 3 * mebi, 4 * mebi}, .head = 11 * mebi}};
  return run;
}

}  // namespace heddle::test
