// The measurements of a run. The summary, the table, the metrics and the notebook are all made from this type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/training/evaluation/evaluated_set.h"
#include "experiments/training/measurements/step_history.h"
#include "experiments/training/measurements/step_seconds.h"
#include "experiments/training/planning/step_bytes.h"
#include "framework/kernels/convolution.h"
#include "framework/tensors/memory.h"
#include "parallel/communicator/tracer.h"
#include "parallel/pipeline/schedule.h"

namespace heddle {

/// What is known of the run that another one resumes: the steps that are not trained again, and all restarts.
struct EarlierRun {
  StepHistory steps{};
  std::vector<Restart> restarts{};
  std::int64_t damaged_lines = 0;  // of its metrics, which were dropped
};

struct RankResult {
  /// Records for how many seconds the rank was busy in its next step.
  void add_busy_step(double seconds);

  int rank = 0;
  std::vector<std::pair<std::string, int>> coordinates;  // axis, position; in mesh order
  MemoryUse peak;                                        // at the moment of the largest total
  std::int64_t peak_offloaded = 0;                       // bytes in the host's memory
  std::int64_t checkpoint_copy = 0;                      // bytes in the host's memory, with train.async_save
  std::optional<std::int64_t> reserved_bytes{};          // by the allocator at the end; on a GPU for all its ranks
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  double busy_seconds = 0;             // outside communicators; CPU time where cores are short, or virtual time
  std::vector<double> busy_in_step{};  // the same for each of the newest steps, at most StepHistory::max_kept of them
  std::int64_t first_busy_step = 0;    // the step of the first of these times, counted from the variant's first_step
  std::vector<Span> trace;
  std::vector<ChosenConvolution> convolutions{};  // on cuda only
  std::vector<std::string> notes{};               // for the user, of a rank whose process has no observer
};

/// The checkpoint that is kept because none before it was as accurate on the first set.
struct BestCheckpoint {
  std::int64_t steps = 0;  // done
  double accuracy = 0;
};

/// The quality of a variant's embeddings after its last step.
struct Evaluation {
  std::optional<double> rank1{};               // share of the test images, if some show people of the training
  std::optional<Verification> verification{};  // absent when the test images give too few pairs
  std::vector<EvaluatedSet> sets{};            // of evaluation.sets
  std::optional<BestCheckpoint> best{};        // with evaluation.keep_best
  bool is_averaged = false;                    // whether the embeddings are those of averaged weights (train.ema)
};

/// The bytes that rank 0 sent in a training step.
struct SentInStep {
  std::int64_t counted = 0;  // the mean over the steps
  StepBytes formula;
};

/// How a model that is cut into stages was run, and its expected figures.
struct PipelineResult {
  /// The names that the experiment uses.
  std::string schedule_name;
  std::string recompute;  // empty for a forward pass alone
  int stages = 1;
  /// The first layer of each stage: where the model was cut.
  std::vector<std::string> stage_begins{};
  /// The schedule that ran, one list for each rank along pp.
  Schedule schedule{};
  /// The speed over `naive` at the same stages, if every stage took equally long and messages no time.
  double ideal_speedup = 1;
  /// For each rank along pp, by the schedule: micro-batches kept for backward, and inputs kept to recompute from.
  std::vector<double> kept_micro_batches{};
  std::vector<double> kept_inputs{};
  /// For each rank along pp, the output of its last stage for the largest micro-batch: `f32[8,28,28,128]`.
  std::vector<std::string> outputs{};
};

/// The settings of a variant's large-class head on which its costs depend.
struct HeadResult {
  std::string name{};  // of its data set
  HeadConfig config{};
  std::int64_t samples = 0;  // of its data set in each batch
  std::int64_t features = 0;
  int ranks = 1;   // the number of ranks that share the classes
  int copies = 1;  // the number of ranks that hold each class and see different samples
};

/// The result of a search: the largest value of a field with which every rank stays within a budget.
struct Maximised {
  std::string field;
  std::int64_t budget = 0;
  std::optional<std::int64_t> value{};  // absent if none fits
  std::string why{};                    // why the next larger value is not possible
};

/// A checkpoint that could not be written, and why.
struct LostCheckpoint {
  std::int64_t steps = 0;  // done
  std::string why;
};

struct VariantResult {
  std::string name;
  /// not_saved: all steps are done, but their checkpoint could not be written.
  enum class Status { ok, out_of_memory, failed, broken_image, interrupted, not_saved } status = Status::ok;
  std::string error;
  std::optional<int> interrupted_by;  // the number of the signal, if the status is interrupted
  std::int64_t first_step = 0;        // greater than 0 when resumed
  std::int64_t batch = 0;
  std::int64_t micro_batches = 1;
  StepHistory steps;
  std::vector<Restart> restarts{};
  double save_wait = 0;                            // seconds of this run in which rank 0 saved and did not train
  std::vector<LostCheckpoint> lost_checkpoints{};  // of this run, without what a resumed one has lost
  std::vector<RankResult> ranks;
  std::optional<Evaluation> evaluation;
  std::optional<SentInStep> sent_in_step;  // absent on one rank, and if not all steps ended
  /// The time of a step, simulated with costs of the stages that were measured in steps apart from the run: what each
  /// of those steps predicts. Of several ranks on a virtual clock, and of pipelines.
  std::optional<StepSeconds> predicted_seconds;
  std::optional<double> flops_per_step;    // plan only
  std::string device = "cpu";              // cpu | cuda | plan
  std::string clock = "wall";              // wall | virtual
  std::vector<HeadResult> heads{};         // at least one
  std::optional<PipelineResult> pipeline;  // absent with one stage
  std::optional<Maximised> maximised{};    // after a search only
};

/// The step time, over the steps of a StepHistory that this run, which may have resumed another one, has done after its
/// first one, which also builds the kernels. Absent if no step was timed (a variant that failed before the end of its
/// first step, or a run that had no step left).
std::optional<StepSeconds> step_seconds(const VariantResult& result);
/// The batch divided by the median step time.
std::optional<double> samples_per_second(const VariantResult& result);
/// The number of steps done, those before a resumption included.
std::int64_t steps_done(const VariantResult& result);
/// `ok`, `out_of_memory`, `failed`, `broken_image`, `interrupted`, `not_saved`.
std::string_view name_of(VariantResult::Status status);
/// Whether busy times are known. They are not on a GPU, which computes by itself while the host, whose clock counts,
/// issues more work or waits.
bool knows_when_busy(const VariantResult& result);
/// The share of the median step (the slower one of two) in which each rank computed. Empty if no step has ended on all
/// ranks, or busy times are not known.
std::vector<double> utilisation(const VariantResult& result);
/// The share of that step in which the ranks did not compute; 0 with one stage. Absent where the utilisation is
/// unknown.
std::optional<double> bubble_fraction(const VariantResult& result);

struct RunResult {
  std::string name;
  std::vector<std::pair<std::string, std::string>> versions;  // libraries, beside those that the summary adds
  std::vector<VariantResult> variants;
};

/// The samples per second over those of another variant; absent where one of the two was not timed.
std::optional<double> speedup(const VariantResult& result, const VariantResult& over);
/// The variant to which a pipeline's speed is fairly compared: one with the schedule `naive` and the same mesh, batch
/// and recomputation. Of several it is the last one up to the pipeline's own place in the run, or else the first one
/// after it. Null if there is none, and without a pipeline. `result` is a variant of `run`.
const VariantResult* naive_of(const RunResult& run, const VariantResult& result);
/// The speedup over `naive_of`, divided by the ideal one.
std::optional<double> share_of_ideal(const RunResult& run, const VariantResult& result);

}  // namespace heddle
