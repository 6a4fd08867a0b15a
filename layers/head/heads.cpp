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
  HeadsPass pass(*this, input);
  for (std::size_t head = 0; head < size(); ++head) {
    pass.start(head);
    pass.add_up(head);
    pass.reduce(head);
    pass.finish(head);
    pass.release(head);
  }
  return pass.output();
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

HeadsPass::HeadsPass(Heads& heads, HeadsInput input)
    : heads_(heads), input_(std::move(input)), passes_(heads.size()), rows_(heads.size()) {
  if (size() > 1)
    output_.embedding_gradient =
        Tensor::zeros(input_.embedding.device(), input_.embedding.shape(), input_.embedding.dtype());
}

void HeadsPass::start(std::size_t head) {
  Tensor embedding = input_.embedding;
  std::vector<std::int64_t> labels(input_.labels.begin(), input_.labels.end());
  if (size() > 1) {
    const std::vector<std::int64_t> places = heads_.shares_.places(head, input_.samples(heads_.rank_.index));
    rows_[head] = Tensor::from_host(embedding.device(), {static_cast<std::int64_t>(places.size())}, places);
    labels = at(input_.labels, places);
    embedding = rows_at(embedding, rows_[head]);
  }
  passes_[head] = std::make_unique<HeadPass>(heads_[head], heads_.input_of(head, input_, std::move(embedding), labels));
}

void HeadsPass::finish(std::size_t head) {
  HeadOutput of_head = passes_[head]->output();
  output_.loss_sums.push_back(std::move(of_head.loss_sum));
  if (size() == 1)
    output_.embedding_gradient = std::move(of_head.embedding_gradient);
  else
    input_.embedding.device().backend().rows().scatter_add(of_head.embedding_gradient, rows_[head],
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
