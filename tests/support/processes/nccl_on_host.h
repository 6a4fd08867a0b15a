// NCCL for ranks that are threads of this process, on a machine without a GPU: memory is the host's, and a stream is a
// list of calls of which each is done when all of its ranks have come to it, as kernels that wait for each other would.
// As strict as NCCL: a call is not on its stream at once, and a call that does not fit those of its peers is an error
// or never ends. Stricter where NCCL may wait for a GPU: a communicator that is created, or connects, must be alone on
// its GPUs, and an abort waits until all communicators with calls under way on its GPU are aborted, and all other
// ranks' ends.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <utility>

#include "parallel/transports/processes/nccl/nccl.h"

namespace heddle::test {

class NcclOnHost : public Nccl {
 public:
  struct Counts {
    int communicators = 0;  // ends of communicators, one per rank
    int closed = 0;
    int aborted = 0;
    int all_gathers = 0;  // calls, one per rank
    int broadcasts = 0;
    int exchanges = 0;
    bool operator==(const Counts&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const Counts& counts) {
      return out << counts.communicators << " communicators, " << counts.closed << " closed, " << counts.aborted
                 << " aborted; " << counts.all_gathers << " all_gathers, " << counts.broadcasts << " broadcasts, "
                 << counts.exchanges << " exchanges";
    }
  };
  /// A fault on one rank of a communicator with this number of ranks.
  struct Fault {
    int ranks = 0;
    int rank = 0;
    enum class Kind { nothing, error, no_end, nap, slow } kind = Kind::nothing;
    std::chrono::milliseconds nap{};  // within a call; of `slow`, until the communicator exists
  };

  NcclOnHost();
  ~NcclOnHost() override;
  NcclOnHost(const NcclOnHost&) = delete;
  NcclOnHost& operator=(const NcclOnHost&) = delete;

  NcclId new_id() override;
  NcclGpu gpu(const Device& device) override;
  std::unique_ptr<NcclCommunicator> join(const NcclId& id, int ranks, int rank, NcclUse use) override;

  /// Gives both ranks the GPU of the first; otherwise each rank has its own.
  void share_gpu(int first, int second) { sharing_ = std::pair(first, second); }
  void set_fault(const Fault& fault);
  Counts counts() const;
  /// Whether every end of a communicator was closed, or aborted without waiting in vain.
  bool is_clean() const;

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
  std::optional<std::pair<int, int>> sharing_;  // the ranks that share the GPU of the first
};

}  // namespace heddle::test
