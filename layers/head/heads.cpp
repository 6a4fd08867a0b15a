#include "layers/head/heads.h"

#include <algorithm>
#include <utility>

#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// The elements at some places.
std::vector<std::int64_t> at(std::span<const std::int64_t> all, const std::vector<std::int64_t>& places) {
  std::vector<std::int64_t> some;
  some.reserve(places.size());
  for (const std::int64_t place : places) some.push_back(all[static_cast<std::size_t>(place)]);
  return some;
}

Tensor rows_at(const Tensor& x, const Tensor& index) {
  Tensor rows = Tensor::empty(x.device(), {index.numel(), x.shape()[1]}, x.dtype());
  x.device().backend().rows().gather(x, index, rows);
  return rows;
}

}  // namespace

Heads::Heads(std::vector<HeadOfSet> heads, BatchShares shares, const OptimizerConfig& optimizer, std::int64_t dimension,
             Rank& rank, Construction& construction, HeadWork work)
    : of_sets_(std::move(heads)), shares_(std::move(shares)), rank_(rank) {
  if (shares_.sets() != of_sets_.size())
    fail("heads: expected one for each of {} data sets, got {}", shares_.sets(), of_sets_.size());
  for (const HeadOfSet& head : of_sets_)
    heads_.push_back(std::make_unique<Head>(head.config, optimizer, dimension, rank, construction,
                                            of_sets_.size() == 1 ? "head" : "head." + head.name, work));
}

bool Heads::samples() const {
  return std::any_of(of_sets_.begin(), of_sets_.end(), [](const HeadOfSet& head) { return head.config.samples(); });
}

void Heads::begin_step(std::int64_t step, std::span<const std::int64_t> labels) {
  for (std::size_t head = 0; head < size(); ++head) {
    std::vector<std::int64_t> own;
    if (of_sets_[head].config.samples())
      own = at(labels, shares_.places(head, {0, static_cast<std::int64_t>(labels.size())}));
    heads_[head]->begin_step(step, own);
  }
}

HeadsOutput Heads::forward_backward(const HeadsInput& input) {
  return HeadsPass(*this, input.embedding).at_once(input);
}

HeadInput Heads::input_of(std::size_t head, const HeadsInput& input, Tensor embedding,
                          std::span<const std::int64_t> labels) const {
  HeadInput own{.embedding = std::move(embedding),
                .labels = labels,
                .samples = {},
                .global_batch = shares_.before(head, input.global_batch)};
  for (const int rank : rank_.mesh.ranks_over(of_sets_[head].config.class_axes(), rank_.index)) {
    own.samples.push_back(shares_.within(head, input.samples(rank)));
    if (!input.weights) continue;
    const std::vector<double> of_rank = input.weights(head, rank);
    own.weights.insert(own.weights.end(), of_rank.begin(), of_rank.end());
  }
  if (!input.while_reducing.empty()) own.while_reducing = input.while_reducing[head];
  return own;
}

HeadsPass::HeadsPass(Heads& heads, Tensor embedding)
    : heads_(heads), embedding_(std::move(embedding)), passes_(heads.size()), rows_(heads.size()) {
  if (passes_.size() > 1)
    output_.embedding_gradient = Tensor::zeros(embedding_.device(), embedding_.shape(), embedding_.dtype());
}

void HeadsPass::start(const HeadsInput& input) {
  for (std::size_t head = 0; head < passes_.size(); ++head) start(head, input);
}
void HeadsPass::sum() {
  for (const auto& pass : passes_) pass->sum();
}
void HeadsPass::compute_gradient() {
  for (const auto& pass : passes_) pass->compute_gradient();
}
HeadsOutput HeadsPass::output() {
  for (std::size_t head = 0; head < passes_.size(); ++head) add_output(head);
  return std::move(output_);
}
void HeadsPass::finish_gradient() {
  for (const auto& pass : passes_) pass->finish_gradient();
}
void HeadsPass::finish_output() {
  for (const auto& pass : passes_) pass->finish_output();
}

HeadsOutput HeadsPass::at_once(const HeadsInput& input) {
  for (std::size_t head = 0; head < passes_.size(); ++head) {
    start(head, input);
    passes_[head]->sum();
    passes_[head]->compute_gradient();
    add_output(head);
    passes_[head].reset();
  }
  return std::move(output_);
}

void HeadsPass::start(std::size_t head, const HeadsInput& input) {
  Tensor embedding = embedding_;
  std::vector<std::int64_t> labels(input.labels.begin(), input.labels.end());
  if (passes_.size() > 1) {
    const std::vector<std::int64_t> places = heads_.shares_.places(head, input.samples(heads_.rank_.index));
    rows_[head] = Tensor::from_host(embedding.device(), {static_cast<std::int64_t>(places.size())}, places);
    labels = at(input.labels, places);
    embedding = rows_at(embedding, rows_[head]);
  }
  passes_[head] = std::make_unique<HeadPass>(heads_[head], heads_.input_of(head, input, std::move(embedding), labels));
}

void HeadsPass::add_output(std::size_t head) {
  HeadOutput of_head = passes_[head]->output();
  output_.loss_sums.push_back(std::move(of_head.loss_sum));
  if (passes_.size() == 1)
    output_.embedding_gradient = std::move(of_head.embedding_gradient);
  else
    embedding_.device().backend().rows().scatter_add(of_head.embedding_gradient, rows_[head],
                                                     output_.embedding_gradient);
}

std::vector<Parameter*> Heads::parameters() {
  std::vector<Parameter*> all;
  for (const auto& head : heads_)
    for (Parameter* parameter : head->parameters()) all.push_back(parameter);
  return all;
}

std::vector<StateTensor> Heads::state() {
  std::vector<StateTensor> all;
  for (const auto& head : heads_)
    for (StateTensor& tensor : head->state()) all.push_back(std::move(tensor));
  return all;
}

}  // namespace heddle
