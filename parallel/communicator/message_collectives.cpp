#include "parallel/communicator/message_collectives.h"

#include <utility>

#include "framework/ops/shape.h"
#include "framework/tensors/device.h"

namespace heddle {

template <class Sent, class Receives>
MessageCollective::MessageCollective(Communicator& ranks, Join join, const Tensor& mine, const Sent& sent,
                                     const Receives& receives)
    : join_(join) {
  for (int rank = 0; rank < ranks.size(); ++rank) {
    Part& part = parts_.emplace_back();
    if (rank == ranks.rank()) {
      part.mine = mine;
      continue;
    }
    if (const Tensor x = sent(static_cast<std::size_t>(rank)); x.defined()) sends_.push_back(ranks.send(x, rank));
    if (receives(static_cast<std::size_t>(rank))) part.message = ranks.recv(rank);
  }
}

MessageCollective MessageCollective::all_gather(Communicator& ranks, const Tensor& x,
                                                std::span<const std::int64_t> rows) {
  return {ranks, Join::rows, x, [&](std::size_t) { return x.shape()[0] > 0 ? x : Tensor(); },
          [&](std::size_t rank) { return rows[rank] > 0; }};
}

MessageCollective MessageCollective::all_reduce(Communicator& ranks, const Tensor& x) {
  return {ranks, Join::sum, x, [&](std::size_t) { return x; }, [](std::size_t) { return true; }};
}

MessageCollective MessageCollective::reduce_scatter(Communicator& ranks, const Tensor& x,
                                                    std::span<const std::int64_t> rows) {
  const std::vector<Tensor> slices = split_rows(x, rows);
  const auto me = static_cast<std::size_t>(ranks.rank());
  return {ranks, Join::sum, slices[me], [&](std::size_t rank) { return rows[rank] > 0 ? slices[rank] : Tensor(); },
          [&](std::size_t) { return rows[me] > 0; }};
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
      if (total.numel() > 0) total.device().backend().reduction().combine(Reduction::sum, held, std::span(&total, 1));
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
  return join_ == Join::rows ? concat_tensors(received(), 0) : sum();
}

void MessageCollective::finish() {
  for (Work<void>& send : sends_) send.wait();
  sends_.clear();
}

}  // namespace heddle
