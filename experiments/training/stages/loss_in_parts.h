// The losses of a step whose parts (J, S and T, parallel/pipeline/schedule.h) stand at different places of the ranks'
// lists. Tensors that other ranks read are kept until a part proves that they have been read; no part waits for the
// ranks of other stages to read them. (Ranks with the same stage and classes, along dp, add up each loss together:
// their lists are the same.)
//
// The proof: all ranks take the parts in one order, and T waits for the S of all ranks. At the T of a micro-batch,
// every rank has thus taken all parts that stand before its S.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "layers/head/heads.h"

namespace heddle {

class LossInParts {
 public:
  /// Uses a micro-batch's losses, and returns the gradient of the last stage's output.
  using UseOutput = std::function<Tensor(HeadsOutput)>;

  /// `input` is read here only.
  void broadcast(int micro_batch, Heads& heads, const HeadsInput& input, UseOutput use);
  void sum(int micro_batch);
  void compute_gradient(int micro_batch);
  /// Waits for the gradient; called once, on ranks that have the last stage's output.
  Tensor wait_for_gradient(int micro_batch);
  /// Waits for all ranks and for what is left.
  void finish();

 private:
  struct Pass {
    std::unique_ptr<HeadsPass> heads;  // null when no other rank reads anything of it
    UseOutput use;
    Tensor gradient{};  // from when it has arrived until the backward pass
    bool has_arrived = false;
    // The places of the parts that were taken, in the order of all parts of the step.
    std::size_t sum_place = 0;
    std::optional<std::size_t> gradient_place{};
    std::optional<std::size_t> settled_place{};  // where every rank receives the gradient, if it has not done so before
  };
  static void receive(Pass& pass);
  /// Receives what all ranks have sent, and drops what all of them have received, if they have taken all parts before a
  /// place.
  void settle(std::size_t place);

  std::map<int, Pass> passes_;  // by micro-batch
  std::size_t place_ = 0;
};

}  // namespace heddle
