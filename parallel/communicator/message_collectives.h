// Collectives that are made of messages. A collective of a communicator is complete when all ranks have waited for it,
// and it completes those that were started before. One of these waits until the other ranks have started it; whether
// they have read this rank's tensors is waited for separately, at any later time. Ranks that call them at different
// times, between other work, thus do not hold each other up. Between processes, a tensor of more than 8 KiB moves while
// both ranks are in a call of a communicator: the receiver waits until the sender comes to one.
//
// Results have the bits of the communicator's own collectives. Each rank sends to each other rank directly, one message
// per call. All ranks of a communicator start these calls in the same order, and send each other nothing else on it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallel/communicator/communicator.h"

namespace heddle {

class MessageCollective {
 public:
  /// Concatenates the rows of all ranks; `rows` are their numbers. A rank without rows sends no message.
  static MessageCollective all_gather(Communicator& ranks, const Tensor& x, std::span<const std::int64_t> rows);
  /// Adds up the x of all ranks, in rank order.
  static MessageCollective all_reduce(Communicator& ranks, const Tensor& x);
  /// Adds up the x [sum of rows, ..] of all ranks, in rank order; rank r gets rows[r] rows of the sum.
  static MessageCollective reduce_scatter(Communicator& ranks, const Tensor& x, std::span<const std::int64_t> rows);

  /// Waits until all ranks have started the call, and returns the result, once.
  Tensor result();
  /// Waits until all ranks have called `result`; no tensor is held any more.
  void finish();

 private:
  /// What a rank gives: a tensor of this one, a message of another one, or nothing.
  struct Part {
    Tensor mine{};
    std::optional<Work<Tensor>> message{};
  };
  /// How the parts become the result.
  enum class Join { rows, sum };

  /// `sent(rank)` goes to each other rank, unless it is undefined; `receives(rank)`: whether that rank sends something.
  template <class Sent, class Receives>
  MessageCollective(Communicator& ranks, Join join, const Tensor& mine, const Sent& sent, const Receives& receives);
  /// The parts of all ranks that have one, in rank order.
  std::vector<Tensor> received();
  /// Their sum. Few of them are held at a time.
  Tensor sum();

  Join join_;
  std::vector<Part> parts_;  // one per rank
  std::vector<Work<void>> sends_;
};

}  // namespace heddle
