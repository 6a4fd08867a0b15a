#include "parallel/communicator/communicator.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "framework/error.h"
#include "parallel/communicator/pending_call.h"
#include "parallel/communicator/shard.h"

namespace heddle {

namespace {

Tensor empty(Device& device, const Call::Part& part) {
  return Tensor::empty(device, part.shape, part.dtype);
}

std::vector<std::int64_t> shard_sizes(std::int64_t total, int parts) {
  std::vector<std::int64_t> sizes;
  for (int p = 0; p < parts; ++p) sizes.push_back(shard(total, parts, p).size);
  return sizes;
}

std::vector<int> world_ranks(const Transport& transport) {
  std::vector<int> ranks;
  for (int rank = 0; rank < transport.size(); ++rank) ranks.push_back(transport.world_rank(rank));
  return ranks;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Transport> transport, Device& device, std::shared_ptr<RankTraffic> traffic)
    : transport_(std::move(transport)),
      device_(&device),
      traffic_(std::move(traffic)),
      collectives_(traffic_->clock.collectives_of(world_ranks(*transport_))),
      sent_(static_cast<std::size_t>(transport_->size())),
      received_(static_cast<std::size_t>(transport_->size())) {}

Communicator::Communicator(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const {
  return transport_->rank();
}
int Communicator::size() const {
  return transport_->size();
}

void Communicator::add_hook(std::shared_ptr<Hook> hook) {
  traffic_->hooks.push_back(std::move(hook));
}

void Communicator::check(std::string_view verb, const Tensor& x) const {
  if (!x.defined()) fail<InputError>("{}: expected a tensor, got none", verb);
  if (&x.device() != device_)
    fail<InputError>("{}: expected a tensor on rank {}'s device, {} is on rank {}'s", verb, device_->rank(),
                     to_string(x), x.device().rank());
}

void Communicator::check_rank(std::string_view verb, int rank) const {
  if (rank < 0 || rank >= size()) fail<InputError>("{}: expected a rank in [0, {}), got {}", verb, size(), rank);
}

void Communicator::check_floating(std::string_view verb, const Tensor& x) const {
  check(verb, x);
  if (!is_floating(x.dtype())) fail<InputError>("{}: expected a floating-point type, got {}", verb, to_string(x));
}

void Communicator::check_rows(std::string_view verb, const Tensor& x) const {
  check(verb, x);
  if (x.shape().rank() == 0) fail<InputError>("{}: expected rows, got {}", verb, to_string(x));
}

void Communicator::check_peer(std::string_view verb, std::string_view what, int rank) const {
  check_rank(verb, rank);
  if (rank == this->rank()) fail<InputError>("{}: rank {} cannot {} itself", verb, rank, what);
}

void Communicator::check_parts(std::string_view verb, std::span<const Tensor> parts) const {
  if (static_cast<int>(parts.size()) != size())
    fail<InputError>("{}: expected {} parts, one for each rank, got {}", verb, size(), parts.size());
  for (const Tensor& part : parts) check(verb, part);
}

std::vector<Tensor> Communicator::for_all(const Tensor& x) const {
  return std::vector<Tensor>(static_cast<std::size_t>(size()), x);
}

Call Communicator::call_of(Operation operation, std::optional<int> peer, std::span<const Tensor> parts) const {
  Call call;
  call.rank = transport_->world_rank(rank());
  call.operation = operation;
  call.start_seconds = traffic_->clock.now();
  if (peer) call.peer = transport_->world_rank(*peer);
  std::transform(parts.begin(), parts.end(), std::back_inserter(call.parts), [](const Tensor& x) {
    return Call::Part{x.dtype(), x.shape()};
  });
  return call;
}

std::shared_ptr<PendingCall> Communicator::start(Call call, std::vector<Tensor> offered, Finish finish) {
  const Communicating communicating(traffic_->clock);
  while (traffic_->started.size() >= Transport::max_started) complete_oldest(*traffic_);
  call.sequence = ++sequence_;
  offered.resize(static_cast<std::size_t>(size()));
  auto pending = std::make_shared<PendingCall>(call, *device_, rank(), *traffic_, collectives_, std::move(finish));
  pending->start(transport_->start(std::move(call), offered), offered);
  traffic_->started.push_back(pending);
  return pending;
}

Work<Tensor> Communicator::broadcast(const Tensor& x, int root) {
  check_rank("broadcast", root);
  if (rank() != root)
    return Work<Tensor>(start(call_of(Operation::broadcast, root, {}), {}, [root](PendingCall& pending) {
      std::vector<Tensor> incoming(static_cast<std::size_t>(root) + 1);
      incoming.back() = empty(pending.device(), pending.call(root).parts[0]);
      pending.receive(incoming);
      return std::vector{incoming.back()};
    }));
  check("broadcast", x);
  return Work<Tensor>(start(call_of(Operation::broadcast, root, std::span(&x, 1)), for_all(x),
                            [x](PendingCall&) { return std::vector{x}; }));
}

Work<Tensor> Communicator::reduce(const Tensor& x, int root, Reduction reduction) {
  check_rank("reduce", root);
  check_floating("reduce", x);
  Call call = call_of(Operation::reduce, root, std::span(&x, 1));
  call.reduction = reduction;
  // Every rank reduces its slice and sends it to the root.
  const std::vector<std::int64_t> sizes = shard_sizes(x.numel(), size());
  return Work<Tensor>(start(std::move(call), split_rows(x.reshape({-1}), sizes),
                            [this_rank = rank(), root, sizes](PendingCall& pending) {
                              const auto me = static_cast<std::size_t>(this_rank);
                              const Call& mine = pending.call(this_rank);
                              Tensor y;
                              std::vector<Tensor> slices;
                              std::vector<Tensor> offered(sizes.size());
                              if (this_rank == root) {
                                y = empty(pending.device(), mine.parts[0]);
                                slices = split_rows(y.reshape({-1}), sizes);
                                pending.reduce(mine.reduction, slices[me]);
                                slices[me] = Tensor();
                              } else {
                                const MemoryScope scope(pending.device(), Category::communication);
                                Tensor& slice = offered[static_cast<std::size_t>(root)];
                                slice = Tensor::empty(pending.device(), {sizes[me]}, mine.parts[0].dtype);
                                pending.reduce(mine.reduction, slice);
                              }
                              pending.offer(std::move(offered));
                              pending.receive(std::move(slices));
                              return std::vector{y};
                            }));
}

Work<Tensor> Communicator::all_reduce(const Tensor& x, Reduction reduction) {
  check_floating("all_reduce", x);
  Call call = call_of(Operation::all_reduce, {}, std::span(&x, 1));
  call.reduction = reduction;
  const std::vector<std::int64_t> sizes = shard_sizes(x.numel(), size());
  return Work<Tensor>(
      start(std::move(call), split_rows(x.reshape({-1}), sizes), [this_rank = rank(), sizes](PendingCall& pending) {
        const Call& mine = pending.call(this_rank);
        const Tensor y = empty(pending.device(), mine.parts[0]);
        pending.all_reduce(mine.reduction, split_rows(y.reshape({-1}), sizes));
        return std::vector{y};
      }));
}

Work<void> Communicator::all_reduce_in_place(Tensor& x, Reduction reduction) {
  check_floating("all_reduce_in_place", x);
  Call call = call_of(Operation::all_reduce, {}, std::span(&x, 1));
  call.reduction = reduction;
  std::vector<Tensor> slices = split_rows(x.reshape({-1}), shard_sizes(x.numel(), size()));
  return Work<void>(start(std::move(call), slices, [reduction, slices](PendingCall& pending) {
    pending.all_reduce(reduction, slices);
    slices[0].storage()->changed();
    return std::vector<Tensor>();
  }));
}

Work<Tensor> Communicator::all_gather(const Tensor& x) {
  check_rows("all_gather", x);
  return Work<Tensor>(
      start(call_of(Operation::all_gather, {}, std::span(&x, 1)), for_all(x), [ranks = size()](PendingCall& pending) {
        std::vector<std::int64_t> rows;
        for (int p = 0; p < ranks; ++p) rows.push_back(pending.call(p).parts[0].shape[0]);
        Call::Part whole = pending.call(0).parts[0];
        whole.shape = whole.shape.with(0, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
        const Tensor y = empty(pending.device(), whole);
        pending.receive(split_rows(y, rows));
        return std::vector{y};
      }));
}

Work<Tensor> Communicator::reduce_scatter(const Tensor& x, Reduction reduction) {
  check_rows("reduce_scatter", x);
  return reduce_scatter(x, shard_sizes(x.shape()[0], size()), reduction);
}

Work<Tensor> Communicator::reduce_scatter(const Tensor& x, std::span<const std::int64_t> rows, Reduction reduction) {
  check_rows("reduce_scatter", x);
  check_floating("reduce_scatter", x);
  if (static_cast<int>(rows.size()) != size() ||
      std::any_of(rows.begin(), rows.end(), [](std::int64_t count) { return count < 0; }) ||
      std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) != x.shape()[0])
    fail<InputError>("reduce_scatter: expected {} numbers of rows that make up {}, got {}", size(), to_string(x),
                     fmt::format("[{}]", fmt::join(rows, ",")));
  std::vector<Tensor> blocks = split_rows(x, rows);
  Call call = call_of(Operation::reduce_scatter, {}, blocks);
  call.reduction = reduction;
  return Work<Tensor>(start(std::move(call), std::move(blocks), [this_rank = rank()](PendingCall& pending) {
    const Call& mine = pending.call(this_rank);
    Tensor y = empty(pending.device(), mine.parts[static_cast<std::size_t>(this_rank)]);
    pending.reduce(mine.reduction, y);
    return std::vector{y};
  }));
}

Work<std::vector<Tensor>> Communicator::all_to_all(std::span<const Tensor> parts) {
  check_parts("all_to_all", parts);
  return Work<std::vector<Tensor>>(
      start(call_of(Operation::all_to_all, {}, parts), {parts.begin(), parts.end()},
            [this_rank = rank(), ranks = size()](PendingCall& pending) {
              std::vector<Tensor> incoming;
              for (int p = 0; p < ranks; ++p)
                incoming.push_back(empty(pending.device(), pending.call(p).parts[static_cast<std::size_t>(this_rank)]));
              pending.receive(incoming);
              return incoming;
            }));
}

Work<std::vector<Tensor>> Communicator::gather(const Tensor& x, int root) {
  check_rank("gather", root);
  check("gather", x);
  std::vector<Tensor> offered(static_cast<std::size_t>(size()));
  offered[static_cast<std::size_t>(root)] = x;
  return Work<std::vector<Tensor>>(start(call_of(Operation::gather, root, std::span(&x, 1)), std::move(offered),
                                         [is_root = rank() == root, ranks = size()](PendingCall& pending) {
                                           std::vector<Tensor> incoming;
                                           for (int p = 0; is_root && p < ranks; ++p)
                                             incoming.push_back(empty(pending.device(), pending.call(p).parts[0]));
                                           pending.receive(incoming);
                                           return incoming;
                                         }));
}

Work<Tensor> Communicator::scatter(std::span<const Tensor> parts, int root) {
  check_rank("scatter", root);
  if (rank() != root) parts = {};
  if (rank() == root) check_parts("scatter", parts);
  return Work<Tensor>(start(call_of(Operation::scatter, root, parts), {parts.begin(), parts.end()},
                            [this_rank = rank(), root](PendingCall& pending) {
                              std::vector<Tensor> incoming(static_cast<std::size_t>(root) + 1);
                              incoming.back() = empty(pending.device(),
                                                      pending.call(root).parts[static_cast<std::size_t>(this_rank)]);
                              pending.receive(incoming);
                              return std::vector{incoming.back()};
                            }));
}

Work<void> Communicator::barrier() {
  return Work<void>(start(call_of(Operation::barrier, {}, {}), {}, [](PendingCall&) { return std::vector<Tensor>(); }));
}

int Communicator::max_over_ranks(int mine) {
  Call call = call_of(Operation::barrier, {}, {});
  call.number = mine;
  int found = mine;
  const std::shared_ptr<PendingCall> pending = start(std::move(call), {}, [&found, ranks = size()](PendingCall& all) {
    for (int p = 0; p < ranks; ++p) found = std::max(found, all.call(p).number);
    return std::vector<Tensor>();
  });
  complete(*pending);
  return found;
}

std::shared_ptr<PendingCall> Communicator::start_send(const Tensor& x, int to) {
  const Communicating communicating(traffic_->clock);
  Call call = call_of(Operation::send, to, std::span(&x, 1));
  call.sequence = ++sent_[static_cast<std::size_t>(to)];
  call.start_seconds = traffic_->clock.departure(*call.peer, x.bytes());
  // The call keeps x, so that x is freed when this rank waits, and not whenever the receiver has it.
  auto pending = std::make_shared<PendingCall>(call, *device_, rank(), *traffic_, nullptr,
                                               [x](PendingCall&) { return std::vector<Tensor>(); });
  pending->start(transport_->start_send(std::move(call), x, to), std::span(&x, 1));
  return pending;
}

std::shared_ptr<PendingCall> Communicator::start_recv(int from) {
  const Communicating communicating(traffic_->clock);
  Call call = call_of(Operation::recv, from, {});
  call.sequence = ++received_[static_cast<std::size_t>(from)];
  auto pending = std::make_shared<PendingCall>(call, *device_, rank(), *traffic_, nullptr, [](PendingCall& message) {
    const Tensor y = empty(message.device(), message.call(0).parts[0]);
    message.receive({y});
    return std::vector{y};
  });
  pending->start(transport_->start_recv(std::move(call), from), {});
  return pending;
}

Work<void> Communicator::send(const Tensor& x, int to) {
  check_peer("send", "send to", to);
  check("send", x);
  return Work<void>(start_send(x, to));
}

Work<Tensor> Communicator::recv(int from) {
  check_peer("recv", "receive from", from);
  return Work<Tensor>(start_recv(from));
}

Work<Tensor> Communicator::exchange(const Tensor& x, int to, int from) {
  check_peer("exchange", "send to", to);
  check_peer("exchange", "receive from", from);
  check("exchange", x);
  std::shared_ptr<PendingCall> sending = start_send(x, to);
  std::shared_ptr<PendingCall> receiving = start_recv(from);
  receiving->pair_with(std::move(sending));
  return Work<Tensor>(std::move(receiving));
}

Communicator Communicator::split(int color) {
  Call call = call_of(Operation::split, {}, {});
  call.number = color;
  std::vector<int> members;
  const std::shared_ptr<PendingCall> pending =
      start(std::move(call), {}, [color, &members, ranks = size()](PendingCall& all) {
        for (int p = 0; p < ranks; ++p)
          if (all.call(p).number == color) members.push_back(p);
        return std::vector<Tensor>();
      });
  const std::uint64_t sequence = sequence_;
  complete(*pending);
  return {transport_->split(sequence, std::move(members)), *device_, traffic_};
}

void Communicator::abort(const std::string& why) {
  transport_->abort(why);
  throw Error(why);
}

}  // namespace heddle
