#include "experiments/training/stages/loss_in_parts.h"

#include <utility>

namespace heddle {

void LossInParts::broadcast(int micro_batch, Heads& heads, const HeadsInput& input, UseOutput use) {
  ++place_;
  Pass& pass = passes_[micro_batch];
  pass.heads = std::make_unique<HeadsPass>(heads, input.embedding);
  pass.use = std::move(use);
  pass.heads->start(input);
}

void LossInParts::sum(int micro_batch) {
  Pass& pass = passes_.at(micro_batch);
  pass.sum_place = ++place_;
  pass.heads->sum();
}

void LossInParts::compute_gradient(int micro_batch) {
  Pass& pass = passes_.at(micro_batch);
  pass.gradient_place = ++place_;
  pass.heads->compute_gradient();
  settle(pass.sum_place);
}

void LossInParts::settle(std::size_t place) {
  const auto is_before = [&](const std::optional<std::size_t>& other) { return other && *other < place; };
  for (auto& [micro_batch, pass] : passes_) {
    if (!pass.heads) continue;
    if (is_before(pass.settled_place)) {
      pass.heads->finish_output();
      pass.heads.reset();
    } else if (is_before(pass.gradient_place) && !pass.settled_place) {
      pass.heads->finish_gradient();
      receive(pass);
      pass.settled_place = place_;
    }
  }
  std::erase_if(passes_, [](const auto& pass) { return !pass.second.heads && !pass.second.gradient.defined(); });
}

Tensor LossInParts::wait_for_gradient(int micro_batch) {
  Pass& pass = passes_.at(micro_batch);
  receive(pass);
  return std::exchange(pass.gradient, Tensor());
}

void LossInParts::receive(Pass& pass) {
  if (std::exchange(pass.has_arrived, true)) return;
  pass.gradient = pass.use(pass.heads->output());
}

void LossInParts::finish() {
  for (auto& [micro_batch, pass] : passes_) {
    if (!pass.heads) continue;
    receive(pass);
    pass.heads->finish_gradient();
    pass.heads->finish_output();
  }
  passes_.clear();
}

}  // namespace heddle
