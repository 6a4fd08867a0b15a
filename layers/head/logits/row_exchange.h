// The exchanges of phase 1 between the ranks that share the classes. Each is started and later waited for. By default
// they are collectives. Where the parts of phase 1 are called at different times on different ranks, they are messages
// (message_collectives.h), so that a rank waits only for what the others have started.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "parallel/communicator/communicator.h"
#include "parallel/communicator/message_collectives.h"

namespace heddle {

/// One that has been started. Without messages, one that nothing is computed beside begins when it is waited for.
class StartedExchange {
 public:
  StartedExchange() = default;
  explicit StartedExchange(std::function<Tensor()> result) : result_(std::move(result)) {}
  explicit StartedExchange(MessageCollective messages) : messages_(std::move(messages)) {}

  bool is_started() const { return result_ || messages_; }
  /// Waits for the result; once.
  Tensor result() { return messages_ ? messages_->result() : std::exchange(result_, nullptr)(); }
  /// Waits until all ranks have called `result`.
  void finish() {
    if (messages_) messages_->finish();
  }

 private:
  std::function<Tensor()> result_;
  std::optional<MessageCollective> messages_;
};

class RowExchange {
 public:
  /// `messages`: a communicator of the same ranks that is used for nothing else; null: collectives.
  RowExchange(Communicator& ranks, Communicator* messages) : ranks_(ranks), messages_(messages) {}

  bool has_messages() const { return messages_ != nullptr; }

  /// The rows of all ranks, whose numbers are `rows`.
  StartedExchange gather(Tensor x, std::span<const std::int64_t> rows) const {
    if (messages_ != nullptr) return StartedExchange(MessageCollective::all_gather(*messages_, x, rows));
    return StartedExchange([&ranks = ranks_, x = std::move(x)]() -> Tensor { return ranks.all_gather(x); });
  }
  /// The sum of the x of all ranks.
  StartedExchange sum(Tensor x) const {
    if (messages_ != nullptr) return StartedExchange(MessageCollective::all_reduce(*messages_, x));
    return StartedExchange([&ranks = ranks_, x = std::move(x)]() -> Tensor { return ranks.all_reduce(x); });
  }
  /// This rank's rows of the sum; `rows` are the numbers of all ranks'. Begins at once.
  StartedExchange sum_rows(const Tensor& x, std::span<const std::int64_t> rows) const {
    if (messages_ != nullptr) return StartedExchange(MessageCollective::reduce_scatter(*messages_, x, rows));
    return StartedExchange([started = ranks_.reduce_scatter(x, rows)]() mutable -> Tensor { return started.wait(); });
  }

 private:
  Communicator& ranks_;
  Communicator* messages_;
};

}  // namespace heddle
