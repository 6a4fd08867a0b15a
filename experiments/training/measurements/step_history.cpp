#include "experiments/training/measurements/step_history.h"

#include <limits>

namespace heddle {

StepHistory::StepHistory(std::initializer_list<StepRecord> records) {
  for (const StepRecord& record : records) push_back(record);
}

void StepHistory::push_back(StepRecord record) {
  losses_.push_back(record.loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  if (record.loss) {
    if (!first_loss_) first_loss_ = record.loss;
    last_loss_ = record.loss;
  }
  for (std::size_t head = 0; head < record.losses.size(); ++head) {
    const double loss = record.losses[head].second;
    if (head == first_losses_.size()) first_losses_.push_back(loss);
    last_losses_.resize(first_losses_.size());
    last_losses_[head] = loss;
  }
  if (record.loss_scale) skipped_ = skipped_.value_or(0) + (record.is_skipped ? 1 : 0);
  records_.push_back(std::move(record));
  if (records_.size() > max_kept) records_.pop_front();
}

std::optional<double> StepHistory::of_head(const std::vector<double>& losses, std::size_t head) {
  return head < losses.size() ? std::optional(losses[head]) : std::nullopt;
}

}  // namespace heddle
