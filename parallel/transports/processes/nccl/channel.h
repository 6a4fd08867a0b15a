// A NCCL communicator and the queue of its operations, which it does one after the other, in the same order on all of
// its ranks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/transports/processes/nccl/nccl.h"

namespace heddle {

/// Throws ElementsLost: NCCL was abandoned.
[[noreturn]] void fail_abandoned();

class Channel {
 public:
  /// The NCCL calls of one operation.
  using Issue = std::function<void(NcclCommunicator&)>;

  class Operation {
   public:
    bool is_done() const { return is_done_; }

   private:
    friend class Channel;
    std::shared_ptr<const Mark> after_;
    Issue issue_;
    std::vector<Tensor> memory_;
    std::unique_ptr<GpuMark> end_;
    bool is_done_ = false;
  };

  /// While `is_paused`, which outlives the channel, it begins no operation except connecting. See Nccl::join for the
  /// other arguments.
  Channel(Nccl& nccl, const NcclId& id, int ranks, int rank, NcclUse use, const bool& is_paused)
      : nccl_(nccl), id_(id), ranks_(ranks), rank_(rank), use_(use), is_paused_(is_paused) {}

  /// Creates the communicator and connects it, by calls of `progress` until `is_open`; see Nccl::join.
  void join();
  bool is_open() const { return connecting_ != nullptr && connecting_->is_done(); }

  /// Queues an operation, which begins after those before it and after this mark, in `progress`. The channel keeps the
  /// memory that it reads and writes until it is done or abandoned.
  std::shared_ptr<Operation> enqueue(std::shared_ptr<const Mark> after, Issue issue, std::vector<Tensor> memory);
  /// Makes progress with the queue; ElementsLost if it cannot be done.
  void progress();
  /// Whether no operation is under way, and whether the queue is empty, too.
  bool is_idle() const { return issued_ == nullptr && under_way_.empty(); }
  bool is_empty() const { return is_idle() && waiting_.empty(); }

  /// Begins to close, until `is_closed`; to be called on all ranks, with nothing under way.
  void begin_to_close();
  bool is_closed();
  /// Drops the queue; the memory is not touched any more. See NcclCommunicator::abort.
  void abandon() noexcept;
  /// To be called after `abandon`, on the rank's own thread: the channel no longer keeps any tensor.
  void release_memory() noexcept;
  bool is_abandoned() const { return is_abandoned_; }

 private:
  Nccl& nccl_;
  NcclId id_;
  int ranks_;
  int rank_;
  NcclUse use_;
  const bool& is_paused_;
  std::unique_ptr<NcclCommunicator> communicator_;
  std::shared_ptr<Operation> connecting_;
  std::deque<std::shared_ptr<Operation>> waiting_;
  std::shared_ptr<Operation> issued_;  // being put on the stream
  std::deque<std::shared_ptr<Operation>> under_way_;
  bool is_abandoned_ = false;
};

}  // namespace heddle
