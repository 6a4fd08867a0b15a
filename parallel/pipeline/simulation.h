// Simulates the time and memory of a schedule: each rank executes its list in order, and each action begins when the
// one before it has ended and its input has arrived.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "parallel/communicator/link_model.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/timeline.h"

namespace heddle {

/// The costs of one micro-batch in one stage, in seconds or any unit. A B takes backward_input + backward_weight.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double recompute = 1;
  double loss = 0;       // H, or S
  double offload = 0;    // O, and the same for L
  double optimizer = 0;  // once per step
  /// In bytes or any unit: `activations` are kept from F (or R) to B or I, `weight_inputs` from I to W. Between F and R
  /// only the `input` is kept. Activations are in the host's memory from the begin of O to the end of L; they are not
  /// in the rank's from the end of O to the begin of L.
  double activations = 1;
  double weight_inputs = 1;
  double input = 0;
};

/// A message between neighbouring stages: its link is busy for `occupancy`, and it arrives `latency` after that.
struct TransferCosts {
  double latency = 0;
  double occupancy = 0;
};

/// How long the messages of a loss in parts take.
struct LossMessages {
  double outputs = 0;   // after the J of the rank that has the last stage, until S can begin
  double sums = 0;      // after the last S, until T
  double gradient = 0;  // after the last T or, of a loss in one exchange, the last S, until the last stage's B or I
};

struct SimulationCosts {
  /// One element per stage, or a single one for all stages.
  std::vector<StageCosts> stages{StageCosts{}};
  /// The costs of a message between two stages, forward or backward. If empty, messages take no time.
  std::function<TransferCosts(int from_stage, int to_stage)> transfer{};
  LossMessages loss_messages{};
  /// The relative speed of each rank; 1 for ranks past the end.
  std::vector<double> speed{};
  /// F and B that overlap take max(F, B) + (1 - overlap) * min(F, B).
  double overlap = 0;
  /// Whether all ranks wait for the last one before the optimizer, for a global norm or to find an overflow.
  bool barrier_before_optimizer = false;
};

struct Simulation {
  Timeline timeline;
  /// The peaks of each rank: of activations (from F to B or I), of weight inputs (from I to W), and of both together
  /// with inputs.
  std::vector<double> peak_activations;
  std::vector<double> peak_weight_inputs;
  std::vector<double> peak_memory;
  /// The peak of each rank's activations in the host's memory.
  std::vector<double> peak_offloaded;
  /// From the first action to the end of the last optimizer.
  double step_time = 0;
};

/// The costs of each stage if `of_rank` is what one micro-batch costs on a rank, whose stages share it evenly, except
/// for `input`, which is what crosses one cut, and `loss`.
std::vector<StageCosts> costs_per_stage(const StageCosts& of_rank, std::span<const int> rank_of);

/// Each rank has a link of its own to the host's memory, which carries one O or L at a time, in the order of the list;
/// a B or I waits for its L, and nothing waits for an O.
///
/// InputError if the schedule cannot be executed (see `check`). Takes lists with communication, and lists of computing
/// actions only, whose messages are then sent as soon as they have been computed.
Simulation simulate(const Schedule& schedule, const SimulationCosts& costs);

}  // namespace heddle
