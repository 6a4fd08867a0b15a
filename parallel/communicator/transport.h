// The plain side of communication: a transport moves the elements of tensors between the ranks of one communicator and
// makes the ranks' calls known to each other. It knows no hooks, no argument checks and no collective's layout: those
// are the Communicator's, once for all transports. A new transport is one file that implements these two classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/description/enum_table.h"
#include "framework/error.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// The largest number of ranks of a run.
inline constexpr int most_ranks = 1024;

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

enum class Reduction { sum, max };

/// What a rank says about a call before any element moves: compared between ranks, shown in errors and to hooks; from
/// `parts` receivers learn shapes and dtypes.
struct Call {
  struct Part {
    DType dtype = DType::f32;
    Shape shape;
    std::int64_t bytes() const { return shape.numel() * static_cast<std::int64_t>(size_of(dtype)); }
    bool operator==(const Part&) const = default;
  };

  /// World rank of the caller.
  int rank = 0;
  /// 1, 2, .. : counts the communicator's collectives; for send and recv the messages of one pair.
  std::uint64_t sequence = 0;
  Operation operation = Operation::barrier;
  Reduction reduction = Reduction::sum;
  /// World rank of the root or of the other side; -1 where there is none.
  int peer = -1;
  /// `split` only.
  int color = 0;
  /// What this rank hands over: one tensor, or one for each receiver; empty if it only receives.
  std::vector<Part> parts;
  /// When it was made, by the caller's clock; of a send, when the message is put on its link.
  double start_seconds = 0;
};

/// `rank 0, call 3: all_reduce(sum) f32[4,2]`.
std::string to_string(const Call& call);

/// A wait that ended because another rank failed. Never the cause of a run's failure.
class Stopped : public RankFailed {
 public:
  using RankFailed::RankFailed;
};

/// One call under way on this rank. Every wait ends: by data, by a peer's failure, or by a timeout that names the peer.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// What every rank said, in rank order (of a recv: what the sender said). Waits for the last of them.
  virtual std::vector<const Call*> calls() = 0;
  /// Copies what rank p offered to this rank into incoming[p], for each p where it is defined.
  virtual void receive(std::span<Tensor> incoming) = 0;
  /// result = what the ranks offered to this rank, combined in rank order 0, 1, .. It may be the very tensor that this
  /// rank offered to itself.
  virtual void reduce(Reduction reduction, Tensor& result) = 0;
  /// A further step of the same call: the next receive or reduce is about these. offered[p] goes to rank p; an
  /// undefined tensor is nothing.
  virtual void offer(std::vector<Tensor> offered) = 0;
  /// Reduces the slices of x that every rank offered, slice p to rank p, and gives everybody all of them: results[p] is
  /// what the ranks offered to rank p, combined. results[p] may be the very slice that this rank offered to rank p (in
  /// place): rank p has read it before anything comes from p. This one reduces the slice of `rank`, which is this rank,
  /// offers it to all and receives the others'; transports that do better override it.
  virtual void all_reduce(Reduction reduction, int rank, std::vector<Tensor> results);
  /// Returns when no rank will read this rank's tensors any more.
  virtual void finish() = 0;
};

/// One rank's end of one communicator.
class Transport {
 public:
  /// So many collectives of one communicator may be started and not yet finished.
  static constexpr std::size_t max_started = 8;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Number in the world of this communicator's rank.
  virtual int world_rank(int rank) const = 0;

  /// Starts a collective without waiting for anybody; ranks meet by call.sequence. Exchanges of one communicator are
  /// finished in the order in which they were started.
  virtual std::unique_ptr<Exchange> start(Call call, std::vector<Tensor> offered) = 0;
  /// Messages of one pair arrive in order. Neither waits; `finish` of a send waits for the receiver to have it.
  virtual std::unique_ptr<Exchange> start_send(Call call, Tensor x, int to) = 0;
  virtual std::unique_ptr<Exchange> start_recv(Call call, int from) = 0;

  /// This rank's end of a communicator of `members` (ranks of this one, ascending, this rank among them). All members
  /// call it with the same `sequence`, which no other split of this communicator has.
  virtual std::unique_ptr<Transport> split(std::uint64_t sequence, std::vector<int> members) = 0;
  /// Ends the waits of all ranks of the world: this rank failed.
  virtual void abort(std::string_view why) = 0;
};

}  // namespace heddle
