// The interface of a transport: it moves the elements of tensors between the ranks of one communicator and makes the
// ranks' calls known to each other. Hooks, argument checks and the layout of collectives are implemented in
// Communicator, once for all transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/description/enum_table.h"
#include "framework/error.h"
#include "framework/kernels/reduction.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// The largest number of ranks of a run.
inline constexpr int max_ranks = 1024;

enum class Operation {
  broadcast,
  reduce,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,
  split,
  send,
  recv
};
template <>
inline constexpr auto enum_names<Operation> = enum_table<Operation>({
    {Operation::broadcast, "broadcast"},
    {Operation::reduce, "reduce"},
    {Operation::all_reduce, "all_reduce"},
    {Operation::all_gather, "all_gather"},
    {Operation::reduce_scatter, "reduce_scatter"},
    {Operation::all_to_all, "all_to_all"},
    {Operation::gather, "gather"},
    {Operation::scatter, "scatter"},
    {Operation::barrier, "barrier"},
    {Operation::split, "split"},
    {Operation::send, "send"},
    {Operation::recv, "recv"},
});

/// The description of a call that a rank sends before any element moves. It is compared between ranks, shown in errors,
/// and given to hooks; receivers learn shapes and dtypes from `parts`.
struct Call {
  struct Part {
    DType dtype = DType::f32;
    Shape shape;
    std::int64_t bytes() const { return shape.numel() * static_cast<std::int64_t>(size_of(dtype)); }
    bool operator==(const Part&) const = default;
  };

  /// World rank of the caller.
  int rank = 0;
  /// 1, 2, ..: counts the collectives of the communicator; for send and recv the messages of one pair.
  std::uint64_t sequence = 0;
  Operation operation = Operation::barrier;
  Reduction reduction = Reduction::sum;
  /// World rank of the root or of the peer, for operations that have one.
  std::optional<int> peer{};
  /// For `split` the color, for a barrier the number of which the ranks learn the largest (max_over_ranks).
  int number = 0;
  /// The tensors that this rank sends: one, or one for each receiver; empty if it only receives.
  std::vector<Part> parts;
  /// The time of the call by the caller's clock; for a send, the time when the message is put on its link.
  double start_seconds = 0;
};

/// `rank 0, call 3: all_reduce(sum) f32[4,2]`.
std::string to_string(const Call& call);

/// A wait that ended because another rank failed. It is never the cause of a run's failure.
class Stopped : public RankFailed {
 public:
  using RankFailed::RankFailed;
};

/// What follows from the calls of all ranks of a collective, and is the same for each of them.
struct CollectiveSummary {
  double latest_start_seconds = 0;
  std::int64_t bytes = 0;  // from which the link model computes the time (link_model.h)
};

/// One call of this rank under way in its transport. Every wait ends: with data, with the failure of a peer, or with a
/// timeout that names the peer.
class TransportCall {
 public:
  virtual ~TransportCall() = default;
  /// The calls of all ranks, in rank order (for a recv, the call of the sender). Waits for the last of them.
  virtual std::vector<const Call*> calls() = 0;
  /// What `make` returns, which depends only on the calls of the collective. Ranks that share memory make it once for
  /// all of them, because it takes longer the more they are. If `make` throws, each rank makes it, and throws, too.
  virtual CollectiveSummary summary(const std::function<CollectiveSummary()>& make) { return make(); }
  /// Copies the tensor that rank p offered to this rank into incoming[p], for each p where that is defined.
  virtual void receive(std::span<Tensor> incoming) = 0;
  /// Combines the tensors that the ranks offered to this rank, in rank order 0, 1, .., into `result`, which may be the
  /// tensor that this rank offered to itself.
  virtual void reduce(Reduction reduction, Tensor& result) = 0;
  /// Begins a further step of the same call, to which the next receive or reduce belongs. offered[p] goes to rank p; an
  /// undefined tensor means nothing.
  virtual void offer(std::vector<Tensor> offered) = 0;
  /// Every rank has offered slice p of its x to rank p. Reduces the slices, and gives all of them to every rank:
  /// results[p] becomes the combination of what the ranks offered to rank p. It may be the slice that this rank offered
  /// to rank p (in place), because rank p has read that before it sends anything. This implementation reduces the slice
  /// of `rank`, which is this rank, offers it to all and receives the others'; transports with a better way override
  /// it.
  virtual void all_reduce(Reduction reduction, int rank, std::vector<Tensor> results);
  /// Returns when no rank will read this rank's tensors any more.
  virtual void finish() = 0;
};

/// A send or a receive: one step, without reduction.
class MessageCall : public TransportCall {
 public:
  void receive(std::span<Tensor> /*incoming*/) override {}
  void reduce(Reduction /*reduction*/, Tensor& /*result*/) final {}
  void offer(std::vector<Tensor> /*offered*/) final {}
};

/// One rank's end of one communicator.
class Transport {
 public:
  /// The number of collectives of one communicator that may be started and not yet finished.
  static constexpr std::size_t max_started = 8;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The world rank of a rank of this communicator.
  virtual int world_rank(int rank) const = 0;

  /// Starts a collective without waiting; the ranks' calls are matched by call.sequence. The calls of one
  /// communicator are finished in the order in which they were started.
  virtual std::unique_ptr<TransportCall> start(Call call, std::vector<Tensor> offered) = 0;
  /// The messages of one pair arrive in order. Neither function waits; `finish` of a send waits until the receiver has
  /// the tensor.
  virtual std::unique_ptr<TransportCall> start_send(Call call, Tensor x, int to) = 0;
  virtual std::unique_ptr<TransportCall> start_recv(Call call, int from) = 0;

  /// This rank's end of a communicator of `members` (ranks of this one, ascending, this rank among them). All members
  /// call it with the same `sequence`, which no other split of this communicator has.
  virtual std::unique_ptr<Transport> split(std::uint64_t sequence, std::vector<int> members) = 0;
  /// Reports that this rank failed, which ends the waits of all ranks of the world.
  virtual void abort(std::string_view why) = 0;
};

}  // namespace heddle
