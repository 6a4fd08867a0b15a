// The records of a run's steps that stay in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// A restart of an elastic job, because some of its processes had ended.
struct Restart {
  int number = 0;          // counts from 1
  std::string why{};       // what had failed
  double failed_at = 0;    // when the others knew it, in Unix time
  std::int64_t step = 0;   // with which the job went on
  std::int64_t ranks = 0;  // that went on
  double seconds = 0;      // from failed_at to the end of that step

  bool operator==(const Restart&) const = default;
};

struct StepRecord {
  std::int64_t step = 0;         // counts from 0
  std::optional<double> loss{};  // mean over the global batch; absent on plan
  /// With several heads: the name of each head's data set and the mean loss over its samples.
  std::vector<std::pair<std::string, double>> losses{};
  double learning_rate = 0;
  std::optional<double> gradient_norm{};  // present when clipping by the global norm
  std::optional<double> loss_scale{};     // present in f16
  bool is_skipped = false;                // because a gradient of f16 has overflowed
  /// The name of each set that was evaluated after the step, and the accuracy on it.
  std::vector<std::pair<std::string, double>> accuracies{};
  double seconds = 0;                   // by rank 0's clock, which has waited for all others' gradients by then
  std::vector<Restart> restarts{};      // in the first step of a run that resumes: all so far
  std::optional<double> save_wait{};    // seconds before this step in which rank 0 saved; absent if it did not
  std::optional<double> loader_wait{};  // the part of `seconds` in which rank 0 waited for images; absent on plan
};

/// Keeps the whole records of the newest steps, and only the losses of all others, so that a long run takes little more
/// memory than a short one. An observer of the run sees every record.
class StepHistory {
 public:
  static constexpr std::size_t max_kept = 1000;

  StepHistory() = default;
  StepHistory(std::initializer_list<StepRecord> records);

  /// Adds the next step, and forgets the oldest record where there are more than max_kept.
  void push_back(StepRecord record);

  /// The records that are kept, in the order of their steps.
  std::size_t size() const { return records_.size(); }
  bool empty() const { return records_.empty(); }
  const StepRecord& operator[](std::size_t i) const { return records_[i]; }
  const StepRecord& front() const { return records_.front(); }
  const StepRecord& back() const { return records_.back(); }
  auto begin() const { return records_.begin(); }
  auto end() const { return records_.end(); }

  /// The loss of every step, also of those whose records were forgotten; NaN where none was computed.
  const std::deque<double>& losses() const { return losses_; }
  /// The losses of the first and the last of all steps that computed one.
  std::optional<double> first_loss() const { return first_loss_; }
  std::optional<double> last_loss() const { return last_loss_; }
  /// The same of one of several heads.
  std::optional<double> first_loss(std::size_t head) const { return of_head(first_losses_, head); }
  std::optional<double> last_loss(std::size_t head) const { return of_head(last_losses_, head); }
  /// The number of all steps whose gradients have overflowed; absent without a loss scale.
  std::optional<std::int64_t> skipped() const { return skipped_; }

 private:
  static std::optional<double> of_head(const std::vector<double>& losses, std::size_t head);

  std::deque<StepRecord> records_;
  std::deque<double> losses_;
  std::optional<double> first_loss_;
  std::optional<double> last_loss_;
  std::vector<double> first_losses_;  // of each head
  std::vector<double> last_losses_;
  std::optional<std::int64_t> skipped_;
};

}  // namespace heddle
