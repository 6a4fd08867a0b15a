// The interface to the connection between the processes of a job: it carries control messages in frames, and bytes from
// memory to memory, and knows nothing about ranks, tensors or failures. Nothing here waits, except for joining and
// leaving the job and where it says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "parallel/communicator/transport.h"
#include "parallel/transports/processes/launch.h"

namespace heddle {

/// Bytes under way from the memory of one process to that of another. Both must stay valid until it is done.
class WireTransfer {
 public:
  virtual ~WireTransfer() = default;
  virtual bool is_done() = 0;
  /// Ends a receive for which no process will send.
  virtual void cancel() = 0;
};

class Wire {
 public:
  /// A control message consists of one or more frames of at most this many bytes.
  static constexpr std::size_t max_frame = 16384;
  /// Tags are below this.
  static constexpr int tags = 32768;

  struct Frame {
    int from;
    std::span<const std::byte> content;  // valid until the next call
    bool more_follow;                    // frames of this message
  };

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The number of processes on this machine, and this one's number among them, from 0.
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;
  /// `Open MPI 4.1.4`, `sockets`.
  virtual std::string name() const = 0;

  struct Loss {
    int process;
    std::string why;  // `its process has ended`
  };
  /// The next process that has ended, after everything that it had sent; each is returned once. For wires without a
  /// launcher that would end the other processes.
  virtual std::optional<Loss> next_loss() { return {}; }
  /// Whether the machine of a process does not acknowledge what was sent to it; false if the wire cannot know.
  virtual bool is_silent(int /*process*/) const { return false; }

  /// Copies a frame, which consists of `head` followed by `content`. The frames of one pair of processes arrive in
  /// order, whatever transfers are under way.
  virtual void post(int to, std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow) = 0;
  virtual std::optional<Frame> next_frame() = 0;
  /// Waits until all posted frames have left this process, which is about to wait elsewhere; false if they have not
  /// within `timeout`.
  virtual bool flush(std::chrono::milliseconds timeout) noexcept = 0;

  /// Any number of bytes; the receiver gives the same number and tag. Of the transfers from one process to another, at
  /// most one at a time has a tag.
  virtual std::unique_ptr<WireTransfer> send(int to, int tag, const void* data, std::int64_t bytes) = 0;
  virtual std::unique_ptr<WireTransfer> receive(int from, int tag, void* data, std::int64_t bytes) = 0;

  /// Runs a collective that the wire's library itself provides (such as MPI_Allreduce) among all processes. Benchmarks
  /// compare ours to it. `in` and `out` are the library's buffers, with equal parts per process; `all_reduce` works in
  /// place where both are the same. `send` is a message from process 0 to process 1. Waits. Returns false if there is
  /// no such collective. RankFailed with the library's message if it fails.
  virtual bool native_collective(Operation /*operation*/, std::span<float> /*in*/, std::span<float> /*out*/) {
    return false;
  }

  /// Leaves this job, and agrees with the processes that are left on a new one, which this process then joins by
  /// itself. The new job has all processes that are not lost, and the lost ones that have been started again in time,
  /// as long as it has fewer than the preferred number of processes. The last call. RankFailed if the others go on
  /// without this process; nothing if it is cancelled, and for wires that cannot do it.
  virtual std::optional<RankAssignment> regroup(const std::set<int>& /*lost*/, const RegroupOptions& /*options*/) {
    return {};
  }
  /// Waits until all processes call it; nothing may be under way. The last call.
  virtual void leave() = 0;
  /// Ends all processes, this one included, with this exit code; where only their launcher can do that, disconnects.
  virtual void abort(int code) = 0;
};

}  // namespace heddle
