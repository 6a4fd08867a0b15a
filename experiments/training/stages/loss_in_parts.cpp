#include "experiments/training/stages/loss_in_parts.h"

#include <utility>

namespace heddle {

void LossInParts::start(int micro_batch, Heads& heads, const HeadsInput& input, Take take) {
  ++place_;
  Pass& pass =
      passes_.emplace(micro_batch, Pass{.heads = HeadsPass(heads, input), .take = std::move(take)}).first->second;
  for (std::size_t head = 0; head < heads.size(); ++head) pass.heads.start(head);
}

void LossInParts::add_up(int micro_batch) {
  Pass& pass = passes_.at(micro_batch);
  pass.add_up_place = ++place_;
  for (std::size_t head = 0; head < pass.heads.size(); ++head) pass.heads.add_up(head);
}

void LossInParts::reduce(int micro_batch) {
  Pass& pass = passes_.at(micro_batch);
  pass.reduce_place = ++place_;
  for (std::size_t head = 0; head < pass.heads.size(); ++head) pass.heads.reduce(head);
  settle(pass.add_up_place);
}

void LossInParts::settle(std::size_t place) {
  const auto is_before = [&](std::size_t other) { return other > 0 && other < place; };
  for (auto& [micro_batch, pass] : passes_) {
    if (is_before(pass.settled_place)) {
      for (std::size_t head = 0; head < pass.heads.size(); ++head) pass.heads[head].finish_output();
      pass.is_finished = true;
    } else if (is_before(pass.reduce_place) && pass.settled_place == 0) {
      for (std::size_t head = 0; head < pass.heads.size(); ++head) pass.heads[head].finish_reduce();
      take(pass);
      pass.settled_place = place_;
    }
  }
  std::erase_if(passes_, [](const auto& pass) { return pass.second.is_finished && !pass.second.gradient.defined(); });
}

Tensor LossInParts::gradient(int micro_batch) {
  Pass& pass = passes_.at(micro_batch);
  take(pass);
  return std::exchange(pass.gradient, Tensor());
}

void LossInParts::take(Pass& pass) {
  if (std::exchange(pass.is_taken, true)) return;
  for (std::size_t head = 0; head < pass.heads.size(); ++head) pass.heads.finish(head);
  pass.gradient = pass.take(pass.heads.output());
}

void LossInParts::finish() {
  for (auto& [micro_batch, pass] : passes_) {
    take(pass);
    for (std::size_t head = 0; head < pass.heads.size(); ++head) {
      pass.heads[head].finish_reduce();
      pass.heads[head].finish_output();
    }
  }
  passes_.clear();
}

}  // namespace heddle
