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
  explicit MessageCollective(Communicator& ranks) : ranks_(&ranks), parts_(static_cast<std::size_t>(ranks.size())) {}
  bool is_me(std::size_t rank) const { return static_cast<int>(rank) == ranks_->rank(); }
  void send(const Tensor& x, std::size_t to);
  /// The parts of all ranks that have one, in rank order.
  std::vector<Tensor> received();
  /// Their sum. Few of them are held at a time.
  Tensor sum();

  /// What a rank gives: a tensor of this one, a message of another one, or nothing.
  struct Part {
    Tensor mine{};
    std::optional<Work<Tensor>> message{};
  };

  Communicator* ranks_;
  std::vector<Part> parts_;
  std::vector<Work<void>> sends_;
  std::optional<std::int64_t> gathered_rows_;  // of an all_gather; else the result is a sum
};

}  // namespace heddle
