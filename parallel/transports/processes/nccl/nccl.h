// What the transport `nccl` needs of NCCL and of CUDA's runtime: an interface, so that tests can stand in for both.
// Nothing here waits for another rank or for the GPU.
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

/// Names a NCCL communicator before it exists (ncclUniqueId).
using NcclId = std::array<std::byte, 128>;

/// Where a rank computes: what no other GPU has (its UUID), and what people call it.
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

/// Bytes that go to another rank of a communicator, or come from it.
struct NcclPiece {
  int peer;
  void* data;
  std::int64_t bytes;
};

/// One rank's end of a NCCL communicator (non-blocking), and the stream on which it moves elements. All functions but
/// `abort` throw ElementsLost with NCCL's reason.
///
/// It has a few of the GPU's multiprocessors while it moves elements, 8 for collectives and 4 for messages at most, so
/// that the others go on computing; NCCL's own choice, up to 32, is for a GPU that does nothing else. NCCL_MAX_CTAS
/// sets another number. For each of them and each connection NCCL allocates buffers of about 10 MiB, which no memory
/// meter and no budget of ours sees: by NCCL's defaults about 80 (k + 2) MiB in a group of k ranks, of which each
/// exchanges with all others and has a place in a ring and a tree, and 120 MiB at an end of messages. That is not
/// measured; NCCL_BUFFSIZE makes it less.
class NcclCommunicator {
 public:
  /// Of one that was finalized and is idle; any other is aborted.
  virtual ~NcclCommunicator() = default;

  /// Whether all that was asked of it so far, the first being to come into existence, is on the stream: only then may
  /// more be asked. Also looks for errors of what is under way.
  virtual bool is_idle() = 0;
  /// The stream waits for the mark before what follows, and gives marks itself.
  virtual void wait_for(const Mark& mark) = 0;
  virtual std::unique_ptr<GpuMark> mark() = 0;

  /// The first call, on all ranks: a byte for whom there will be more, because NCCL connects a sender and a receiver,
  /// and allocates their buffers, in the first call that they have with each other.
  virtual void connect() = 0;

  /// As one group: no order among them.
  virtual void exchange(std::span<const NcclPiece> sends, std::span<const NcclPiece> receives) = 0;
  /// Every rank's bytes in rank order, into all; `own` may already be in its place there.
  virtual void all_gather(const void* own, void* all, std::int64_t bytes) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;

  /// To be called on all ranks when nothing is under way.
  virtual void finalize() = 0;
  /// What is under way ends at once, undone. The last call. It may wait for the GPU, and so until this rank's other
  /// communicators are aborted, and for the other ranks to abort theirs: all are to be aborted at the same time, each
  /// in a thread of its own.
  virtual void abort() noexcept = 0;
};

class Nccl {
 public:
  virtual ~Nccl() = default;
  virtual NcclId new_id() = 0;
  /// Of this thread's device, on which the rank computes.
  virtual NcclGpu gpu(const Device& device) = 0;
  /// All ranks call it with the id that one of them made, each with a GPU of its own, which is the thread's. NCCL may
  /// wait for the GPU, in a thread of its own: nothing may be under way there that waits for another rank, until the
  /// communicator is connected.
  virtual std::unique_ptr<NcclCommunicator> join(const NcclId& id, int ranks, int rank, NcclUse use) = 0;
};

/// NCCL itself, opened when it is first called; InputError if it is not there, or if this program was built without.
Nccl& open_nccl();
/// `2.28` of the headers that this program was built with; empty in one built without.
std::string nccl_version();

}  // namespace heddle
