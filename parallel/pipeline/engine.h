// Executes one rank's list of a schedule over its stages. Knows nothing of layers: a stage is a function of variables.
//
// Activations and gradients cross from stage to stage as messages. A send is started and let go. It is waited for one
// computing action after the first that begins when the receiver would use it, if all parts took equally long. So a
// slow receiver does not delay the sender's next micro-batch, what is on its way is bounded, and memory does not depend
// on timing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "framework/autograd/autograd.h"
#include "parallel/communicator/tracer.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/rank.h"

namespace heddle {

/// A schedule made ready to be executed; one for all ranks of a run.
struct PipelineProgram {
  /// With communication.
  Schedule schedule;
  /// The sends of a rank that are waited for before its action of that index; those that stand nowhere at the end.
  std::vector<std::map<std::size_t, std::vector<Action>>> waits;
};
/// InputError if the schedule cannot be executed.
std::shared_ptr<const PipelineProgram> make_program(Schedule schedule);
/// Forward only: stage by stage, each for all micro-batches, with communication.
Schedule forward_only(const std::vector<int>& rank_of, int micro_batches);

/// What the engine runs: the stages of this rank, and the loss.
class PipelineStages {
 public:
  virtual ~PipelineStages() = default;

  /// What the first stage is given: one tensor, without a gradient.
  virtual Tensor load(int micro_batch) = 0;
  /// What `stage` makes for the next one out of what it was given; the last stage makes the loss's input alone.
  /// `inputs` are leaves where a gradient is wanted. `recomputing`: this micro-batch has been through this stage
  /// before.
  virtual std::vector<Variable> forward(int stage, int micro_batch, std::vector<Variable> inputs, bool recomputing) = 0;
  /// Of what crosses into a stage and out of it, whether the stage before wants, or gets, a gradient. Into stage 0: of
  /// the one tensor, no.
  virtual std::vector<bool> input_gradients(int stage) const = 0;
  virtual std::vector<bool> output_gradients(int stage) const = 0;
  /// H: from the last stage's output (undefined on ranks that do not have it) to its gradient (undefined there).
  virtual Tensor loss(int micro_batch, const Tensor& output) = 0;
  /// Called before this rank's last action that adds to gradients of parameters.
  virtual void last_weight_gradient() {}
};

class PipelineEngine {
 public:
  /// `ranks` are those of the pipeline in order, this one among them.
  PipelineEngine(std::shared_ptr<const PipelineProgram> program, Communicator& ranks, Device& device, Tracer& tracer);

  /// Executes this rank's list; all ranks of the pipeline call it. Gives the last stage's outputs that no H has taken,
  /// in the order of micro-batches: those of a forward-only list.
  std::vector<Tensor> run(PipelineStages& stages);

 private:
  class Execution;

  std::shared_ptr<const PipelineProgram> program_;
  Communicator& ranks_;
  Device& device_;
  Tracer& tracer_;
};

}  // namespace heddle
