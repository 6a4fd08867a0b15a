// Executes one rank's list of a schedule with its stages. It knows nothing about layers: a stage is a function of
// variables.
//
// Activations and gradients are sent from stage to stage as messages. A send is started without waiting. It is waited
// for one computing action after the time at which the receiver would use it if F, I, W and R took one unit each, B two
// and the loss none. A slow receiver therefore does not delay the sender's next micro-batch, the number of messages in
// flight is bounded, and memory does not depend on timing.
//
// O moves to the host's memory all activations that the graph of a micro-batch keeps, except the outputs of the stage,
// which are still being sent. They leave the rank's memory, and L allocates them there again, where O and L stand in
// the list.
#pragma once

#include <memory>
#include <vector>

#include "framework/autograd/autograd.h"
#include "parallel/communicator/tracer.h"
#include "parallel/pipeline/program.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/rank.h"

namespace heddle {

/// The functions that the engine runs: the stages of this rank and the loss.
class PipelineStages {
 public:
  virtual ~PipelineStages() = default;

  /// The input of the first stage: one tensor, which needs no gradient.
  virtual Tensor load(int micro_batch) = 0;
  /// Computes the outputs of `stage` from its inputs; the last stage has one output, which is the input of the loss.
  /// `inputs` whose gradients are wanted are leaves. `recomputing`: whether this micro-batch has been through this
  /// stage before.
  virtual std::vector<Variable> forward(int stage, int micro_batch, std::vector<Variable> inputs, bool recomputing) = 0;
  /// For each input of a stage, whether the stage before wants its gradient, and for each output, whether the stage
  /// after gives one. The one input of stage 0 has none.
  virtual std::vector<bool> input_gradients(int stage) const = 0;
  virtual std::vector<bool> output_gradients(int stage) const = 0;
  /// H: computes the gradient of the last stage's output. Both are undefined on ranks that do not have that stage.
  virtual Tensor loss(int micro_batch, const Tensor& output) = 0;
  /// J, S and T: the parts of H. S waits for the J of the rank that has the last stage's output, and T for the S of all
  /// ranks.
  virtual void broadcast_for_loss(int micro_batch, const Tensor& output);
  virtual void sum_loss(int micro_batch);
  virtual void compute_loss_gradient(int micro_batch);
  /// Waits until all ranks have called `compute_loss_gradient` or, of a loss in one exchange, `sum_loss`, and returns
  /// the gradient of the last stage's output. Called on the rank that has this stage.
  virtual Tensor wait_for_loss_gradient(int micro_batch);
  /// Called before this rank's last action that adds to gradients of parameters.
  virtual void before_last_weight_gradient() {}
};

class PipelineEngine {
 public:
  /// `ranks` are those of the pipeline in order, this one among them.
  PipelineEngine(std::shared_ptr<const PipelineProgram> program, Communicator& ranks, Device& device, Tracer& tracer,
                 RankClock& clock);

  /// Executes this rank's list; all ranks of the pipeline call it. Returns those outputs of the last stage that no H or
  /// J has taken, in the order of the micro-batches: all of them if the list is forward-only.
  std::vector<Tensor> run(PipelineStages& stages);

 private:
  class Execution;

  std::shared_ptr<const PipelineProgram> program_;
  Communicator& ranks_;
  Device& device_;
  Tracer& tracer_;
  RankClock& clock_;
};

}  // namespace heddle
