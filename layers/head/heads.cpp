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
             Rank& rank, Construction& construction)
    : of_sets_(std::move(heads)), shares_(std::move(shares)), rank_(rank) {
  if (shares_.sets() != of_sets_.size())
    fail("heads: expected one for each of {} data sets, got {}", shares_.sets(), of_sets_.size());
  for (const HeadOfSet& head : of_sets_)
    heads_.push_back(std::make_unique<Head>(head.config, optimizer, dimension, rank, construction,
                                            of_sets_.size() == 1 ? "head" : "head." + head.name));
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
  HeadsOutput output;
  if (size() == 1) {
    HeadOutput of_head = forward_backward(0, input, input.embedding, input.labels);
    output.loss_sums.push_back(std::move(of_head.loss_sum));
    output.embedding_gradient = std::move(of_head.embedding_gradient);
    return output;
  }
  Device& device = input.embedding.device();
  output.embedding_gradient = Tensor::zeros(device, input.embedding.shape(), input.embedding.dtype());
  for (std::size_t head = 0; head < size(); ++head) {
    const std::vector<std::int64_t> places = shares_.places(head, input.samples(rank_.index));
    const Tensor index = Tensor::from_host(device, {static_cast<std::int64_t>(places.size())}, places);
    const std::vector<std::int64_t> labels = at(input.labels, places);
    HeadOutput of_head = forward_backward(head, input, rows_at(input.embedding, index), labels);
    device.backend().rows().scatter_add(of_head.embedding_gradient, index, output.embedding_gradient);
    output.loss_sums.push_back(std::move(of_head.loss_sum));
  }
  return output;
}

HeadOutput Heads::forward_backward(std::size_t head, const HeadsInput& input, const Tensor& embedding,
                                   std::span<const std::int64_t> labels) {
  HeadInput own{.embedding = embedding,
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
  return heads_[head]->forward_backward(own);
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
