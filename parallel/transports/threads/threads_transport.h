// Ranks as threads of one process: receivers copy directly out of the senders' tensors, without staging. Waits spin for
// some microseconds, unless there are more ranks than cores, and then sleep. Sends are never buffered (rendezvous
// mode), and a cycle of waiting ranks is found as soon as its last rank goes to sleep.
//
// On a GPU that the ranks share, a call is done when its copies and kernels are issued. They run on the stream of the
// rank that reads, among its kernels: a stream of their own could not hide the time of a link, since there is only the
// same memory. Streams wait for each other at marks, and hosts only for hosts:
// - a rank that offers a tensor, or memory for results, marks its stream; a rank that works on it waits for that mark;
// - a rank that has issued such work marks its own stream, and makes the owner's stream wait for that mark before it
//   notifies the owner's host: what the owner issues later, such as a change or the return of the memory, comes after
//   the work.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "parallel/communicator/transport.h"

namespace heddle {

/// The state that the ranks of one run share. It holds tensors that are being sent: the devices must outlive it.
class ThreadsWorld {
 public:
  ThreadsWorld(int ranks, std::chrono::milliseconds timeout);
  ~ThreadsWorld();
  ThreadsWorld(const ThreadsWorld&) = delete;
  ThreadsWorld& operator=(const ThreadsWorld&) = delete;

  /// A rank's end of the world's communicator, for use by the rank's own thread.
  std::unique_ptr<Transport> connect(int rank);
  /// The rank has ended without a failure: waits for it end with an error.
  void ended(int rank);
  /// The rank has failed: all waits end with an error that names it.
  void failed(int rank, std::string_view why);
  /// The rank's thread is about to end, whether or not the rank failed.
  void returned(int rank);
  /// Waits until ranks 0 .. count-1 have returned. If others have not returned `patience` after one has failed (they
  /// compute forever, and cannot be ended), it calls `on_stall` once with the text, and returns.
  void await(int count, std::chrono::milliseconds patience,
             const std::function<void(const std::string& why)>& on_stall);

  class Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace heddle
