// What a schedule costs, by event times: each rank does its list in order, each action begins when the one before it
// has ended and its input is there.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "parallel/communicator/link_model.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/timeline.h"

namespace heddle {

/// Of one micro-batch in one stage, in seconds or any unit. A B takes backward_input + backward_weight.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double recompute = 1;
  double loss = 0;       // H
  double optimizer = 0;  // once a step
  /// Kept from F (or R) to B or I, and from I to W; in bytes or any unit. Between F and R the input alone is kept.
  double activations = 1;
  double weight_inputs = 1;
  double input = 0;
};

/// A message between neighbouring stages: its link is busy for `occupies`, and it arrives `latency` after that.
struct TransferCosts {
  double latency = 0;
  double occupies = 0;
};

struct SimulationCosts {
  /// Of each stage; one: of all stages alike.
  std::vector<StageCosts> stages{StageCosts{}};
  /// Of a message out of a stage, forward or backward. None: no time.
  std::function<TransferCosts(int from_stage, int to_stage)> transfer{};
  /// How fast each rank computes; 1 where there is none.
  std::vector<double> speed{};
  /// F and B that overlap take max(F, B) + (1 - overlap) * min(F, B).
  double overlap = 0;
  /// All ranks wait for the last before the optimizer: a global norm, or the verdict on overflow.
  bool barrier_before_optimizer = false;
};

struct Simulation {
  Timeline timeline;
  /// Of each rank, the most at once: activations of micro-batches (from F to B or I), and of weight inputs (I to W) at
  /// that moment or another. `memory` is the most of both together, inputs included.
  std::vector<double> peak_activations;
  std::vector<double> peak_weight_inputs;
  std::vector<double> peak_memory;
  /// From the first action to the end of the last optimizer.
  double makespan = 0;
};

/// Of each stage, where `rank` is what one micro-batch costs a rank: its stages share that evenly, except for `input`,
/// which is what crosses one cut, and `loss`.
std::vector<StageCosts> shared_by_stages(const StageCosts& rank, std::span<const int> rank_of);

/// InputError if the schedule cannot be executed (see `check`). Takes compute-only lists, whose messages are then sent
/// as soon as their content is made, and lists with communication.
Simulation simulate(const Schedule& schedule, const SimulationCosts& costs);

}  // namespace heddle
