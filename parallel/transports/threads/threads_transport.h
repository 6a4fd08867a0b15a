// Ranks as threads of one process: receivers copy straight out of the senders' tensors, nothing is staged. Waits spin
// for some microseconds, unless there are more ranks than cores, and then sleep. Sends are never buffered (what others
// call rendezvous mode), and a circle of sleeping ranks is found as soon as its last rank falls asleep.
//
// On a GPU that the ranks share, a call is done when its copies and kernels are issued. They run on the stream of the
// rank that reads, among what it computes: there is no link whose time a stream of their own could hide, only the same
// memory. Streams wait for each other by marks, hosts for hosts alone:
// - who offers a tensor, or memory for results, marks its stream; who works on it waits for that mark first;
// - who has issued such work marks its own stream, and makes the owner's wait for that before the owner's host is told:
//   what the owner issues later, a change or the return of the memory, comes after the work.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "parallel/communicator/transport.h"

namespace heddle {

/// What the ranks of one run share. Holds tensors that are on their way: the devices must outlive it.
class ThreadsWorld {
 public:
  ThreadsWorld(int ranks, std::chrono::milliseconds timeout);
  ~ThreadsWorld();
  ThreadsWorld(const ThreadsWorld&) = delete;
  ThreadsWorld& operator=(const ThreadsWorld&) = delete;

  /// A rank's end of the world's communicator; for the rank's own thread.
  std::unique_ptr<Transport> connect(int rank);
  /// The rank ended well: waits for it end with an error.
  void ended(int rank);
  /// The rank failed: all waits end with an error that names it.
  void failed(int rank, std::string_view why);
  /// The rank's thread is about to end, however the rank did.
  void returned(int rank);
  /// Waits for ranks 0 .. count-1 to have returned. If one has failed and others are still away so long after (they
  /// compute for ever, and nobody can end them), `on_stall` is told, once.
  void await(int count, std::chrono::milliseconds patience,
             const std::function<void(const std::string& why)>& on_stall);

  class Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace heddle
