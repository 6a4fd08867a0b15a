// The losses of a step whose parts (J, S and T, parallel/pipeline/schedule.h) stand at different places of the ranks'
// lists. Tensors that other ranks read are kept until a part proves that they have been read; no part waits for that.
//
// The proof: all ranks take the parts in one order, and T waits for the S of all ranks. At the T of a micro-batch,
// every rank has thus taken all parts that stand before its S.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "layers/head/heads.h"

namespace heddle {

class LossInParts {
 public:
  /// Takes a micro-batch's losses, and returns the gradient of the last stage's output.
  using Take = std::function<Tensor(HeadsOutput)>;

  void start(int micro_batch, Heads& heads, const HeadsInput& input, Take take);
  void add_up(int micro_batch);
  void reduce(int micro_batch);
  /// Waits for the gradient; called once, on ranks that have the last stage's output.
  Tensor gradient(int micro_batch);
  /// Waits for all ranks and for what is left.
  void finish();

 private:
  struct Pass {
    HeadsPass heads;
    Take take;
    Tensor gradient{};  // from when it is taken until the backward pass
    bool is_taken = false;
    // The places of parts in their order, from 1; 0: not yet.
    std::size_t add_up_place = 0;
    std::size_t reduce_place = 0;
    std::size_t settled_place = 0;  // where every rank takes the gradient, if it has not done so before
    bool is_finished = false;       // no other rank reads anything
  };
  static void take(Pass& pass);
  /// Takes what has arrived from all ranks and drops what all of them have read, if they have taken all parts before
  /// a place.
  void settle(std::size_t place);

  std::map<int, Pass> passes_;  // by micro-batch
  std::size_t place_ = 0;
};

}  // namespace heddle
