// What a run measured: the one type that the summary, the table, the metrics and the notebook are made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/training/evaluation.h"
#include "experiments/training/model_layout.h"
#include "framework/kernels/convolution.h"
#include "framework/tensors/memory.h"
#include "parallel/communicator/tracer.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

struct StepRecord {
  std::int64_t step = 0;         // counts from 0
  std::optional<double> loss{};  // mean over the global batch; absent on plan
  double learning_rate = 0;
  std::optional<double> gradient_norm{};  // present when clipping by the global norm
  std::optional<double> loss_scale{};     // in f16
  bool is_skipped = false;                // for a gradient of f16 has overflowed
  double seconds = 0;                     // by rank 0's clock, which has waited for all others' gradients by then
};

struct RankResult {
  int rank = 0;
  std::vector<std::pair<std::string, int>> coordinates;  // axis, position; in mesh order
  MemoryUse peak;                                        // at the moment of the largest total
  std::optional<std::int64_t> reserved_bytes{};          // by the allocator at the end, a GPU's by all its ranks
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  double busy_seconds = 0;             // outside communicators: CPU time where cores are short, or virtual
  std::vector<double> busy_in_step{};  // the same of each step since the variant's first_step
  std::vector<Span> trace;
  std::vector<ChosenConvolution> convolutions{};  // on cuda only
};

/// Seconds a step over the steps after the first, which also builds the kernels.
struct StepSeconds {
  double median = 0;
  double minimum = 0;
  double maximum = 0;
};

/// What a variant's embeddings are worth, measured once after its last step.
struct Evaluation {
  double rank1 = 0;                          // share of the test images
  std::optional<Verification> verification;  // absent when the test images give too few pairs
};

/// What rank 0 sent in a training step.
struct SentInStep {
  std::int64_t counted = 0;  // the mean over the steps
  StepBytes formula;
};

/// How a model cut into stages was run, and what was to be expected of it.
struct PipelineResult {
  /// As the experiment names them.
  std::string schedule_name;
  std::string recompute;  // empty: forward only
  int stages = 1;
  /// The first layer of each stage: where the model was cut.
  std::vector<std::string> stage_begins{};
  /// What ran, a list a rank along pp.
  Schedule schedule{};
  /// Over `naive` at the same stages, if every stage took equally long and messages no time.
  double ideal_speedup = 1;
  /// Of each rank along pp, by the schedule: micro-batches kept for backward, and inputs kept to recompute from.
  std::vector<double> kept_micro_batches{};
  std::vector<double> kept_inputs{};
  /// Of a step, simulated from costs of the stages that were measured apart from the run.
  std::optional<double> predicted_seconds{};
  /// Of each rank along pp: what its last stage makes of the largest micro-batch, `f32[8,28,28,128]`.
  std::vector<std::string> outputs{};
};

/// The large-class head of a variant: what its costs depend on.
struct HeadResult {
  HeadConfig config{};
  std::int64_t features = 0;
  int ranks = 1;   // that share the classes
  int copies = 1;  // of each class, which see other samples
};

/// What a search found: the largest value of a field with which every rank stays within a budget.
struct Maximised {
  std::string field;
  std::int64_t budget = 0;
  std::optional<std::int64_t> value{};  // absent: none fits
  std::string why{};                    // what keeps the next larger value out
};

struct VariantResult {
  std::string name;
  enum class Status { ok, out_of_memory, failed } status = Status::ok;
  std::string error;
  std::int64_t first_step = 0;  // past 0 when resumed
  std::int64_t batch = 0;
  std::int64_t micro_batches = 1;
  std::vector<StepRecord> steps;
  std::vector<RankResult> ranks;
  std::optional<Evaluation> evaluation;
  std::optional<SentInStep> sent_in_step;      // absent on one rank, and if not all steps ended
  std::optional<std::int64_t> flops_per_step;  // plan only
  std::string device = "cpu";                  // cpu | cuda | plan
  std::string clock = "wall";                  // wall | virtual
  HeadResult head{};
  std::optional<PipelineResult> pipeline;  // absent with one stage
  std::optional<Maximised> maximised{};    // after a search only
};

/// Absent if no step was timed (a variant that failed before its first step's end).
std::optional<StepSeconds> step_seconds(const VariantResult& result);
/// Of the steps that computed one.
std::optional<double> first_loss(const VariantResult& result);
std::optional<double> last_loss(const VariantResult& result);
/// The batch over the median step.
std::optional<double> samples_per_second(const VariantResult& result);
/// Steps since the first one ever, those before a resumption included.
std::int64_t steps_done(const VariantResult& result);
/// Those whose gradients have overflowed. Absent without a loss scale.
std::optional<std::int64_t> skipped_steps(const VariantResult& result);
/// `ok`, `out_of_memory`, `failed`.
std::string_view name_of(VariantResult::Status status);
/// False on a GPU: it goes on by itself while the host, whose clock counts, issues more or waits.
bool knows_when_busy(const VariantResult& result);
/// Of each rank, the share of the time that it computed, in the median step (the slower one of two). Empty if no step
/// has ended on all ranks, or that is not known.
std::vector<double> utilisation(const VariantResult& result);
/// The share of the ranks' time that they did not compute in that step; 0 with one stage. Absent likewise.
std::optional<double> bubble_fraction(const VariantResult& result);

struct RunResult {
  std::string name;
  std::vector<std::pair<std::string, std::string>> versions;  // of libraries, beside those that the summary adds
  std::vector<VariantResult> variants;
};

/// Samples a second over those of another variant. Absent where one of the two was not timed.
std::optional<double> speedup(const VariantResult& result, const VariantResult& over);
/// The variant that a pipeline's speed-up is fairly told over: one with the schedule `naive`, the same mesh, batch and
/// recomputation, and of several the last one up to the pipeline's own place in the run, else the first one after it;
/// null if there is none, and without a pipeline. `result` is a variant of `run`.
const VariantResult* naive_of(const RunResult& run, const VariantResult& result);
/// Speed-up over `naive_of` divided by the ideal one.
std::optional<double> share_of_ideal(const RunResult& run, const VariantResult& result);

}  // namespace heddle
