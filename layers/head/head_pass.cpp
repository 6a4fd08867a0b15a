#include "layers/head/head_pass.h"

#include <utility>

#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"
#include "layers/head/head_checks.h"

namespace heddle {

namespace {

std::vector<std::int64_t> row_counts(const std::vector<IndexRange>& ranges) {
  std::vector<std::int64_t> counts;
  for (const IndexRange& range : ranges) counts.push_back(range.size);
  return counts;
}

StartedExchange alone(Tensor x) {
  return StartedExchange([x = std::move(x)]() mutable { return std::move(x); });
}

}  // namespace

HeadPass::HeadPass(Head& head, HeadInput input)
    : head_(head),
      embedding_(std::move(input.embedding)),
      samples_(std::move(input.samples)),
      global_batch_(input.global_batch),
      while_reducing_(std::move(input.while_reducing)),
      logits_(logits_input(input)) {
  const int rank = head.ranks_.rank();
  const std::int64_t first = samples_[static_cast<std::size_t>(rank)].begin;
  check_labels(head.name_, input.labels, first, head.config_.classes);
  head.take_sample();
  const auto count = static_cast<std::int64_t>(input.labels.size());
  Tensor mine = head.config_.normalize ? Tensor::empty_like(embedding_) : Tensor();
  embedding_scale_ = Tensor::empty(head.device_, {embedding_.shape()[0]}, head.dtype_);
  head.device_.backend().normalization().l2_normalize(embedding_, norm_epsilon, mine, embedding_scale_);
  check_finite_embeddings(head.name_, embedding_scale_, first);
  if (!head.config_.normalize) mine = embedding_;
  Tensor own_labels = Tensor::from_host(head.device_, {count}, input.labels);
  const bool is_replicated = head.config_.is_replicated();
  const auto gathered = [&](Tensor x) {
    return is_replicated ? alone(std::move(x)) : logits_.exchange.gather(std::move(x), logits_.share);
  };
  rows_ = gathered(std::move(mine));
  labels_ = gathered(std::move(own_labels));
  if (head.margin_.needs_inverse_norms()) scales_ = gathered(embedding_scale_);
}

LogitsInput HeadPass::logits_input(const HeadInput& input) const {
  Head& head = head_;
  if (static_cast<int>(samples_.size()) != head.ranks_.size())
    fail("head: expected the samples of {} ranks, got {}", head.ranks_.size(), samples_.size());
  Tensor weights;
  if (!input.weights.empty())
    weights = in_type(Tensor::from_host(head.device_, {static_cast<std::int64_t>(input.weights.size())},
                                        std::span<const double>(input.weights)),
                      head.dtype_);
  return {.config = head.config_,
          .ranks = head.ranks_,
          .exchange = RowExchange(head.ranks_, head.messages_ ? &*head.messages_ : nullptr),
          .classes = head.tiles_,
          .columns = {},
          .rows = {},
          .operand = {},
          .labels = {},
          .share = row_counts(samples_),
          .loss_factors = {.mean_factor = head.config_.loss_weight / static_cast<double>(input.global_batch),
                           .row_weights = weights},
          .wants_loss = head.config_.has_loss(head.step_)};
}

void HeadPass::sum() {
  logits_.rows = rows_.result();
  logits_.labels = labels_.result();
  logits_.operand = in_type(logits_.rows, head_.product_type_);
  const bool samples = head_.config_.samples();
  if (samples) logits_.labels = head_.sample_.columns_of(logits_.labels);
  for (int r = 0; r < head_.ranks_.size(); ++r)
    logits_.columns.push_back(samples ? IndexRange{0, head_.tiles_.classes()}
                                      : head_.config_.classes_of(head_.ranks_.size(), r));
  logits_.margin = head_.margin_.of_rows(logits_, scales_.is_started() ? scales_.result() : Tensor());
  if (head_.config_.logits != Logits::fused) return;
  fused_ = std::make_unique<FusedLogits>(logits_);
  fused_->sum();
  if (!is_in_one_exchange()) return;
  const FusedLogits::Terms terms = fused_->take_terms();
  gradient_ = logits_.exchange.sum_rows(terms.weighted, logits_.share);
  targets_ = logits_.exchange.sum_rows(terms.targets, logits_.share);
}

Tensor HeadPass::keep_rows() {
  if (std::exchange(has_kept_rows_, true)) return {};
  LogitsResult result = fused_ ? fused_->finish() : compute_logits(logits_);
  radial_ = radial_share(logits_, result.kept.log_sums);
  result.kept.radial = radial_;
  head_.kept_.push_back(std::move(result.kept));
  loss_ = std::move(result.loss);
  return std::move(result.gradient);
}

void HeadPass::compute_gradient() {
  Tensor gradient = keep_rows();
  if (head_.messages_)
    logits_.rows = Tensor();
  else
    fused_.reset();
  if (is_in_one_exchange()) return;
  if (head_.config_.is_replicated())
    gradient_ = alone(std::move(gradient));
  else
    gradient_ = logits_.exchange.sum_rows(std::exchange(gradient, Tensor()), logits_.share);
}

Tensor HeadPass::summed_gradient() {
  Tensor gradient = gradient_.result();
  if (!is_in_one_exchange()) return gradient;
  return fused_->gradient_of(logits_.own_rows(), {.weighted = std::move(gradient), .targets = targets_.result()});
}

HeadOutput HeadPass::output() {
  HeadOutput output;
  if (is_in_one_exchange()) (void)keep_rows();
  if (while_reducing_ && !head_.config_.is_replicated()) {
    check_finite_sums(head_.name_, head_.kept_.back().log_sums, samples_);
    while_reducing_();
  }
  output.embedding_gradient = summed_gradient();
  if (head_.config_.normalize)
    head_.device_.backend().normalization().l2_normalize_backward(embedding_, embedding_scale_,
                                                                  output.embedding_gradient, output.embedding_gradient);
  if (radial_.defined()) {
    const IndexRange own = logits_.own_rows();
    head_.device_.backend().head().add_radial(radial_.rows(own.begin, own.end()), Tensor(), 0, embedding_,
                                              output.embedding_gradient);
  }
  check_finite_gradient(head_.name_, output.embedding_gradient);
  if (loss_.defined()) {
    head_.weigh(logits_, loss_);
    output.loss_sum = head_.loss_sum(loss_, 1.0 / static_cast<double>(global_batch_));
  }
  if (head_.scatters_loss()) output.losses = loss_;
  return output;
}

void HeadPass::finish_output() {
  gradient_.finish();
  targets_.finish();
}

void HeadPass::finish_gradient() {
  rows_.finish();
  labels_.finish();
  scales_.finish();
  if (fused_) fused_->finish_exchange();
}

}  // namespace heddle
