// What moves bytes between the processes of a job: the part of communication that only MPI or sockets can do, and
// nothing of what a rank, a tensor or a failure is. Nothing here waits, except for joining and leaving the job and
// where it says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "parallel/communicator/transport.h"

namespace heddle {

/// Bytes under way, straight from one process's memory into another's. Both must stay until it is done.
class WireTransfer {
 public:
  virtual ~WireTransfer() = default;
  virtual bool is_done() = 0;
  /// For a receive that nobody sends to.
  virtual void cancel() = 0;
};

class Wire {
 public:
  /// A letter has one or more sheets of at most so many bytes.
  static constexpr std::size_t max_frame = 16384;
  /// Tags are below this.
  static constexpr int tags = 32768;

  struct Frame {
    int from;
    std::span<const std::byte> content;  // until the next call
    bool more_follow;                    // of this letter
  };

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Processes on this machine, and this one's place among them.
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;
  /// `Open MPI 4.1.4`, `sockets`.
  virtual std::string name() const = 0;

  struct Gone {
    int process;
    std::string why;  // `its process is gone`
  };
  /// A process that is there no more, each once, after all that it had sent: where no launcher ends the others then.
  virtual std::optional<Gone> next_gone() { return {}; }

  /// Copies the sheet, which is `words` and `content` one after the other. Those of one pair arrive in order, whatever
  /// transfers are under way.
  virtual void post(int to, std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow) = 0;
  virtual std::optional<Frame> next_frame() = 0;
  /// Waits until all that was posted has left this process, for one that is about to wait elsewhere; false if it has
  /// not after so long.
  virtual bool flush(std::chrono::milliseconds patience) noexcept = 0;

  /// Any number of bytes; the receiver gives the same number and tag.
  virtual std::unique_ptr<WireTransfer> send(int to, int tag, const void* data, std::int64_t bytes) = 0;
  virtual std::unique_ptr<WireTransfer> receive(int from, int tag, void* data, std::int64_t bytes) = 0;

  /// The library's own collective of f32 on all processes: what ours are measured against. `in` and `out` are what the
  /// library takes, of equal parts; the same span is reduced in place. `send` is a message from process 0 to 1. Waits;
  /// false if there is none.
  virtual bool plain(Operation operation, std::span<float> in, std::span<float> out) = 0;

  /// Waits for all processes to call it; nothing may be under way. The last call.
  virtual void leave() = 0;
  /// Ends all processes, this one included, by this exit code; where only their launcher can do that, lets go of them.
  virtual void abort(int code) = 0;
};

}  // namespace heddle
