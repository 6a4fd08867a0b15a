// The interface of the transport `nccl` to NCCL and to CUDA's runtime, for which tests have a stand-in. Nothing here
// waits for another rank or for the GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "framework/tensors/device.h"
#include "parallel/transports/processes/element_path.h"

namespace heddle {

/// Identifies a NCCL communicator before it exists (ncclUniqueId).
using NcclId = std::array<std::byte, 128>;

/// The GPU of a rank: its UUID, and its name for people.
struct NcclGpu {
  std::array<std::byte, 16> id{};
  std::string machine;
  std::string address;  // `0000:3B:00.0`
};

/// Collectives of all ranks of a communicator, or messages from its rank 0 to its rank 1.
enum class NcclUse { collectives, messages };

/// A point on a stream (cudaEvent_t).
class GpuMark : public Mark {
 public:
  virtual bool is_reached() = 0;
};

/// Bytes that are sent to another rank of a communicator, or received from it.
struct NcclPiece {
  int peer;
  void* data;
  std::int64_t bytes;
};

/// One rank's end of a NCCL communicator (non-blocking), and the stream on which it moves elements. All functions but
/// `abort` throw ElementsLost with NCCL's reason.
///
/// It uses a few of the GPU's multiprocessors while it moves elements, at most 8 for collectives and 4 for messages, so
/// that the others continue computing; NCCL's own choice, up to 32, is for a GPU that does nothing else. NCCL_MAX_CTAS
/// sets a different number. For each multiprocessor and each connection NCCL allocates buffers of about 10 MiB, which
/// the memory meter and the budget do not see: with NCCL's defaults about 80 (k + 2) MiB in a group of k ranks, each of
/// which exchanges with all others and has a place in a ring and a tree, and 120 MiB at each end of messages. These
/// numbers are not measured; NCCL_BUFFSIZE reduces them.
class NcclCommunicator {
 public:
  /// Aborts the communicator unless it was finalized and is idle.
  virtual ~NcclCommunicator() = default;

  /// Whether everything that was called so far, beginning with its creation, is on the stream: only then may more be
  /// called. Also checks for errors of what is under way.
  virtual bool is_idle() = 0;
  /// `wait_for`: what follows on the stream begins after the backend's mark. `mark`: a mark behind what is on the
  /// stream.
  virtual void wait_for(const Mark& mark) = 0;
  virtual std::unique_ptr<GpuMark> mark() = 0;

  /// The first call, on all ranks: sends one byte between all pairs that will exchange more, because NCCL connects a
  /// sender and a receiver, and allocates their buffers, in their first call with each other.
  virtual void connect() = 0;

  /// All sends and receives as one group, in no order.
  virtual void exchange(std::span<const NcclPiece> sends, std::span<const NcclPiece> receives) = 0;
  /// Gathers every rank's bytes in rank order into `all`; `own` may already be in its place there.
  virtual void all_gather(const void* own, void* all, std::int64_t bytes) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;

  /// To be called on all ranks when nothing is under way.
  virtual void finalize() = 0;
  /// Ends what is under way at once, incomplete. The last call. It may wait for the GPU, and so until this rank's other
  /// communicators are aborted, and for the other ranks to abort theirs: all are to be aborted at the same time, each
  /// in a thread of its own.
  virtual void abort() noexcept = 0;
};

class Nccl {
 public:
  virtual ~Nccl() = default;
  virtual NcclId new_id() = 0;
  /// The GPU of this thread's device, on which the rank computes.
  virtual NcclGpu gpu(const Device& device) = 0;
  /// All ranks call it with the id that one of them made, each with a GPU of its own, which is the thread's. NCCL may
  /// wait for the GPU, in a thread of its own: nothing may be under way there that waits for another rank, until the
  /// communicator is connected.
  virtual std::unique_ptr<NcclCommunicator> join(const NcclId& id, int ranks, int rank, NcclUse use) = 0;
};

/// NCCL itself, opened by the first call; InputError if it is not there, or if this program was built without it.
Nccl& open_nccl();
/// The version of the headers that this program was built with, `2.28`, unless it was built without NCCL.
std::optional<std::string> nccl_version();

}  // namespace heddle
