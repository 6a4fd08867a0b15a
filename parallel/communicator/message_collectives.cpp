#include "parallel/communicator/message_collectives.h"

#include <utility>

#include "framework/tensors/device.h"

namespace heddle {

namespace {

/// Copies the parts one behind the other.
Tensor joined_rows(const std::vector<Tensor>& parts, std::int64_t rows) {
  if (parts.size() == 1) return parts.front();
  const Tensor& first = parts.front();
  Tensor all = Tensor::empty(first.device(), first.shape().with(0, rows), first.dtype());
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    const std::int64_t end = begin + part.shape()[0];
    all.rows(begin, end).copy_from(part);
    begin = end;
  }
  return all;
}

}  // namespace

void MessageCollective::send(const Tensor& x, std::size_t to) {
  sends_.push_back(ranks_->send(x, static_cast<int>(to)));
}

MessageCollective MessageCollective::all_gather(Communicator& ranks, const Tensor& x,
                                                std::span<const std::int64_t> rows) {
  MessageCollective call(ranks);
  std::int64_t all = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    all += rows[rank];
    if (call.is_me(rank)) {
      // Where all ranks have none, the result is this rank's.
      call.parts_[rank].mine = x;
    } else {
      if (x.shape()[0] > 0) call.send(x, rank);
      if (rows[rank] > 0) call.parts_[rank].message = ranks.recv(static_cast<int>(rank));
    }
  }
  call.gathered_rows_ = all;
  return call;
}

MessageCollective MessageCollective::all_reduce(Communicator& ranks, const Tensor& x) {
  MessageCollective call(ranks);
  for (std::size_t rank = 0; rank < call.parts_.size(); ++rank) {
    if (call.is_me(rank)) {
      call.parts_[rank].mine = x;
    } else {
      call.send(x, rank);
      call.parts_[rank].message = ranks.recv(static_cast<int>(rank));
    }
  }
  return call;
}

MessageCollective MessageCollective::reduce_scatter(Communicator& ranks, const Tensor& x,
                                                    std::span<const std::int64_t> rows) {
  MessageCollective call(ranks);
  const std::vector<Tensor> slices = split_rows(x, rows);
  const bool gets_rows = rows[static_cast<std::size_t>(ranks.rank())] > 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (call.is_me(rank)) {
      call.parts_[rank].mine = slices[rank];
    } else {
      if (rows[rank] > 0) call.send(slices[rank], rank);
      if (gets_rows) call.parts_[rank].message = ranks.recv(static_cast<int>(rank));
    }
  }
  return call;
}

Tensor MessageCollective::sum() {
  constexpr std::size_t max_held = 8;
  Tensor sum;
  std::vector<Tensor> held;
  const auto add_held = [&] {
    if (held.size() == 1) {
      sum = std::move(held.front());
    } else {
      Tensor total = Tensor::empty_like(held.front());
      if (total.numel() > 0) total.device().backend().reduction().combine(ReduceOp::sum, held, std::span(&total, 1));
      sum = std::move(total);
    }
    held = {sum};
  };
  for (Part& part : parts_) {
    if (part.mine.defined()) held.push_back(std::move(part.mine));
    if (part.message) held.push_back(part.message->wait());
    if (held.size() == max_held) add_held();
  }
  parts_.clear();
  if (held.size() > 1 || !sum.defined()) add_held();
  return sum;
}

std::vector<Tensor> MessageCollective::received() {
  std::vector<Tensor> all;
  for (Part& part : parts_) {
    if (part.message) all.push_back(part.message->wait());
    if (part.mine.defined()) all.push_back(std::move(part.mine));
  }
  parts_.clear();
  return all;
}

Tensor MessageCollective::result() {
  return gathered_rows_ ? joined_rows(received(), *gathered_rows_) : sum();
}

void MessageCollective::finish() {
  for (Work<void>& send : sends_) send.wait();
  sends_.clear();
}

}  // namespace heddle
