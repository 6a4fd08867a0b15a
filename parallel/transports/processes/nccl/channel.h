// A NCCL communicator and what goes over it: one operation after the other, in the same order on all of its ranks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/transports/processes/nccl/nccl.h"

namespace heddle {

/// ElementsLost: NCCL was given up.
[[noreturn]] void fail_abandoned();

class Channel {
 public:
  /// What one operation asks of NCCL.
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

  /// While `is_paused`, which outlives it, it begins nothing but to connect. See Nccl::join for the rest.
  Channel(Nccl& nccl, const NcclId& id, int ranks, int rank, NcclUse use, const bool& is_paused)
      : nccl_(nccl), id_(id), ranks_(ranks), rank_(rank), use_(use), is_paused_(is_paused) {}

  /// Brings the communicator into existence and connects it, by `progress` until `is_open`; see Nccl::join.
  void join();
  bool is_open() const { return connecting_ != nullptr && connecting_->is_done(); }

  /// To be done after what was put before, and after this mark; `progress` begins it. The memory that it reads and
  /// writes stays until it is done or abandoned, whatever becomes of who put it.
  std::shared_ptr<Operation> put(std::shared_ptr<const Mark> after, Issue issue, std::vector<Tensor> memory);
  /// Goes on with what was put; ElementsLost when it will not be done.
  void progress();
  /// Whether nothing is under way, and whether nothing that was put is undone.
  bool is_idle() const { return issued_ == nullptr && under_way_.empty(); }
  bool is_empty() const { return is_idle() && waiting_.empty(); }

  /// When nothing is under way, on all ranks: begins to close, until `is_closed`.
  void begin_to_close();
  bool is_closed();
  /// What was put will never be done, and the memory is not touched any more. See NcclCommunicator::abort.
  void abandon() noexcept;
  /// After that, on the rank's own thread: lets go of the memory.
  void forget() noexcept;
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
  std::shared_ptr<Operation> issued_;  // on its way into the stream
  std::deque<std::shared_ptr<Operation>> under_way_;
  bool is_abandoned_ = false;
};

}  // namespace heddle
