// A NCCL communicator and what goes over it: one operation after the other, in the same order on all of its ranks.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "parallel/nccl/nccl.h"

namespace heddle {

class Lane {
 public:
  /// What one operation asks of NCCL.
  using Issue = std::function<void(NcclCommunicator&)>;

  class Operation {
   public:
    bool is_done() const { return is_done_; }

   private:
    friend class Lane;
    std::shared_ptr<Mark> after_;
    Issue issue_;
    std::unique_ptr<GpuMark> end_;
    bool is_done_ = false;
  };

  /// See Nccl::join, which waits for the first progress.
  Lane(Nccl& nccl, const NcclId& id, int ranks, int rank) : nccl_(nccl), id_(id), ranks_(ranks), rank_(rank) {}

  /// To be done after what was put before, and after this mark; `progress` begins it.
  std::shared_ptr<Operation> put(std::shared_ptr<Mark> after, Issue issue);
  /// Goes on with what was put; ElementsLost when it will not be done.
  void progress();

  /// When nothing is under way, on all ranks: begins to close, until `is_closed`.
  void begin_to_close();
  bool is_closed();
  /// What was put will never be done, and the memory is not touched any more.
  void abandon() noexcept;
  bool is_abandoned() const { return is_abandoned_; }

 private:
  Nccl& nccl_;
  NcclId id_;
  int ranks_;
  int rank_;
  std::unique_ptr<NcclCommunicator> communicator_;
  std::deque<std::shared_ptr<Operation>> waiting_;
  std::shared_ptr<Operation> issued_;  // on its way into the stream
  std::deque<std::shared_ptr<Operation>> under_way_;
  bool is_abandoned_ = false;
};

}  // namespace heddle
