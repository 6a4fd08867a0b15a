// Executes one rank's list of a schedule over its stages. Knows nothing of layers: a stage is a function of variables.
//
// Activations and gradients cross from stage to stage as messages that nobody waits for: a send is waited for where the
// schedule itself implies that the receiver has it (or at the end of the list), so that a slow receiver delays no
// sender and memory does not depend on timing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/autograd.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/rank.h"
#include "parallel/tracer.h"

namespace heddle {

/// What the engine runs: the stages of this rank, and the loss.
class PipelineStages {
 public:
  virtual ~PipelineStages() = default;

  /// What stage `stage` makes for the next one out of what it was given, [] for stage 0; the last stage's output is the
  /// loss's input. `inputs` are leaves where a gradient is wanted. Under `recomputing` the same micro-batch has been
  /// through this stage before.
  virtual std::vector<Variable> forward(int stage, int micro_batch, std::span<const Variable> inputs,
                                        bool recomputing) = 0;
  /// How many values cross into a stage; 0 into stage 0.
  virtual std::size_t inputs(int stage) const = 0;
  /// Whether a gradient of that input is wanted by the stage before.
  virtual bool has_gradient(int stage, std::size_t input) const = 0;
  /// H: from the last stage's output (undefined on other ranks) to its gradient (undefined there).
  virtual Tensor loss(int micro_batch, const Tensor& output) = 0;
  /// Before this rank's last action that adds to gradients of parameters.
  virtual void last_weight_gradient() {}
};

/// A rank's list made ready: where each send is waited for, and what is let go when.
class PipelineEngine {
 public:
  /// The schedule is one with communication, all ranks' lists; `ranks` are those of the pipeline in order, this one
  /// among them.
  PipelineEngine(Schedule schedule, Communicator& ranks, Device& device, Tracer& tracer);
  ~PipelineEngine();
  PipelineEngine(const PipelineEngine&) = delete;
  PipelineEngine& operator=(const PipelineEngine&) = delete;

  /// One step. All ranks of the pipeline call it.
  void run(PipelineStages& stages);
  /// Forward of all micro-batches without a graph: the last stage's outputs in their order, none on other ranks.
  std::vector<Tensor> run_forward(PipelineStages& stages, int micro_batches);

  const Schedule& schedule() const { return schedule_; }
  /// Of the last `run`, this rank's computing.
  const std::vector<TimedAction>& timed() const { return timed_; }

 private:
  Schedule schedule_;
  Communicator& ranks_;
  Device& device_;
  Tracer& tracer_;
  std::vector<TimedAction> timed_;
};

}  // namespace heddle
