// The typed interface to communication. Every verb checks its arguments, runs the hooks, compares the ranks' calls, and
// has a transport move the elements. A verb starts the call and returns `Work`, which converts to the result by
// waiting:
//
//   const Tensor total = world.all_reduce(x);
//
// All ranks of a communicator make the same collective calls in the same order. Results are new tensors on the caller's
// device, charged to the category that was current when the verb was called (the root of a broadcast gets its own
// tensor back). The tensors that a call is given must not be changed before `wait`. Receivers learn shape and dtype
// from the sender. Zero rows are legal. Reductions run in rank order, rounded to the dtype after each rank, so their
// bits do not depend on the transport.
//
// No wait hangs: it ends with data, or with a RankFailed that gives the reason. Calls that do not match are both
// printed. A rank that throws, finishes or does not respond is named. Ranks that wait for each other in a cycle are
// printed as a deadlock, each with its call (a collective waits for the first rank that is missing). Sends are never
// buffered: a send is complete when the receiver has the tensor. Two ranks that both wait for their sends first
// therefore deadlock, on every transport and at every size; the deadlock is reported.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/tensors/device.h"
#include "framework/tensors/tensor.h"
#include "parallel/communicator/hook.h"
#include "parallel/communicator/rank_clock.h"
#include "parallel/communicator/transport.h"

namespace heddle {

/// A call that has been started.
class PendingCall;
/// Completes the call and returns its result, once. A collective also completes all collectives that this rank started
/// before it.
std::vector<Tensor> complete(PendingCall& call);

/// The state that all communicators of one rank share.
struct RankTraffic {
  explicit RankTraffic(RankClock rank_clock = RankClock()) : clock(std::move(rank_clock)) {}

  RankClock clock;
  std::vector<std::shared_ptr<Hook>> hooks;
  /// Collectives started and not yet complete, oldest first.
  std::deque<std::shared_ptr<PendingCall>> started;
};

/// A started call. `wait` returns its result, once no peer reads this rank's tensors any more. The collectives of a
/// rank complete in the order in which they were started: waiting for one completes the earlier ones too.
template <class Result>
class [[nodiscard("the call is complete only after wait()")]] Work {
 public:
  explicit Work(std::shared_ptr<PendingCall> call) : call_(std::move(call)) {}
  /// May be called once.
  Result wait() {
    std::vector<Tensor> result = complete(*call_);
    if constexpr (std::is_same_v<Result, Tensor>) return std::move(result.front());
    if constexpr (std::is_same_v<Result, std::vector<Tensor>>) return result;
  }
  operator Result() && requires(!std::is_void_v<Result>) {  // NOLINT(google-explicit-constructor): it is its result
    return wait();
  }

 private:
  std::shared_ptr<PendingCall> call_;
};

class Communicator {
 public:
  Communicator(std::unique_ptr<Transport> transport, Device& device, std::shared_ptr<RankTraffic> traffic);
  Communicator(Communicator&&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;
  Device& device() const { return *device_; }

  /// The root's x on every rank; x is read on the root only and may be undefined elsewhere.
  Work<Tensor> broadcast(const Tensor& x, int root);
  /// Reduces the x of all ranks elementwise; they have one shape and one floating dtype. Returns the result on the
  /// root, and no tensor elsewhere.
  Work<Tensor> reduce(const Tensor& x, int root, Reduction reduction = Reduction::sum);
  /// The same, with the result on every rank.
  Work<Tensor> all_reduce(const Tensor& x, Reduction reduction = Reduction::sum);
  /// x becomes the result, without a second tensor of its size. Until `wait`, x is neither read nor changed. One rank
  /// may be in place while others are not.
  Work<void> all_reduce_in_place(Tensor& x, Reduction reduction = Reduction::sum);
  /// Concatenates the rows (dimension 0) of all ranks; the numbers of rows may differ.
  Work<Tensor> all_gather(const Tensor& x);
  /// Reduces the x [rows, ..] of all ranks, which have one shape. This rank gets its rows of the result: shard(rows,
  /// size, rank), or rows[rank] if `rows` gives their numbers in rank order.
  Work<Tensor> reduce_scatter(const Tensor& x, Reduction reduction = Reduction::sum);
  Work<Tensor> reduce_scatter(const Tensor& x, std::span<const std::int64_t> rows,
                              Reduction reduction = Reduction::sum);
  /// parts[p] goes to rank p; element p of the result came from rank p. Any shapes and dtypes.
  Work<std::vector<Tensor>> all_to_all(std::span<const Tensor> parts);
  /// Returns every rank's x in rank order on the root, and nothing elsewhere.
  Work<std::vector<Tensor>> gather(const Tensor& x, int root);
  /// Returns the root's parts[rank]; parts are read on the root only.
  Work<Tensor> scatter(std::span<const Tensor> parts, int root);
  Work<void> barrier();
  /// The largest number that a rank gives: a barrier that moves no elements. Waits.
  int max_over_ranks(int mine);

  /// Messages of one pair arrive in the order of their sends. Between start and the receiver's wait, x stays charged to
  /// the sender. `wait` returns when the receiver has it.
  Work<void> send(const Tensor& x, int to);
  Work<Tensor> recv(int from);
  /// Sends x to one rank and receives from one, the same or another; both start together, so that ranks may all
  /// exchange at once, in pairs or in a ring.
  Work<Tensor> exchange(const Tensor& x, int to, int from);
  Work<Tensor> exchange(const Tensor& x, int peer) { return exchange(x, peer, peer); }

  /// A communicator of the ranks that give the same color, in their present order. Waits.
  Communicator split(int color);
  /// Ends every rank of the world, this one by an Error with this text. `run_ranks` reports `rank 1 failed: why`.
  [[noreturn]] void abort(const std::string& why);

  /// For all communicators of this rank.
  void add_hook(std::shared_ptr<Hook> hook);

 private:
  using Finish = std::function<std::vector<Tensor>(PendingCall&)>;

  std::shared_ptr<PendingCall> start(Call call, std::vector<Tensor> offered, Finish finish);
  std::shared_ptr<PendingCall> start_send(const Tensor& x, int to);
  std::shared_ptr<PendingCall> start_recv(int from);
  Call call_of(Operation operation, std::optional<int> peer, std::span<const Tensor> parts) const;
  std::vector<Tensor> for_all(const Tensor& x) const;
  void check(std::string_view verb, const Tensor& x) const;
  void check_floating(std::string_view verb, const Tensor& x) const;
  void check_rows(std::string_view verb, const Tensor& x) const;
  void check_rank(std::string_view verb, int rank) const;
  void check_peer(std::string_view verb, std::string_view what, int rank) const;
  void check_parts(std::string_view verb, std::span<const Tensor> parts) const;

  std::unique_ptr<Transport> transport_;
  Device* device_;
  std::shared_ptr<RankTraffic> traffic_;
  RankClock::Collectives* collectives_;  // of these ranks; null on a wall clock
  /// Collectives so far, and messages to and from each rank.
  std::uint64_t sequence_ = 0;
  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
};

}  // namespace heddle
