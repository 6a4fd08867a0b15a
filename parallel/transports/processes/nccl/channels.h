// A rank's NCCL communicators: how they are created, one at a time, and how they end.
//
// While a communicator is created and connects, NCCL allocates memory, and CUDA may let that wait for everything that
// the GPU does. If the GPU has a kernel of another communicator, which waits for another rank's, ranks could wait for
// each other in a cycle. Therefore a communicator is only created when no other communicator of its ranks moves
// anything, and these begin nothing until it is connected:
//
//   lock    The ranks are locked in ascending order, each by one opening at a time, so that openings do not wait for
//           each other in a cycle: `lock` goes from rank to rank, and the last one sends `locked` to all.
//   pause   Then the ranks begin no more operations on their other channels. In a group, all ranks are in a
//           collective and wait for nothing but this. In a pair, this holds for the receiver; the sender may be
//           anywhere: it first finishes its queue, which may wait for the receiver, and then sends `paused` to it.
//   join    The communicator is created once nothing is under way any more.
//
// A group opens its channel in its first collective of large tensors, all of its ranks together. A pair does with the
// first large message: opening the channels of all pairs at the beginning would take p (p - 1) communicators with their
// buffers, and the neighbours in a pipeline need few of them. Each direction has its own, so that messages in opposite
// directions do not wait for each other. All of them stay until the section ends, also those of destroyed groups.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "parallel/transports/processes/message.h"
#include "parallel/transports/processes/nccl/channel.h"

namespace heddle {

class ProgressEngine;

/// Identifies a channel; all of its ranks use the same name.
struct ChannelName {
  NcclUse use = NcclUse::collectives;
  std::uint64_t group = 0;  // for collectives
  int sender = -1;          // of messages, by world rank
  int receiver = -1;
  auto operator<=>(const ChannelName&) const = default;
};

class Channels {
 public:
  Channels(ProgressEngine& engine, Nccl& nccl) : engine_(engine), nccl_(nccl) {}

  /// The channel, once it is open; null before, while `progress` opens it. To be called by all ranks of a group, when
  /// all are in a call, and by the receiver of messages. `members` are world ranks in the communicator's order.
  std::shared_ptr<Channel> open(const ChannelName& name, const std::vector<int>& members);
  /// A channel that its other ranks know to be open.
  const std::shared_ptr<Channel>& at(const ChannelName& name) const { return channels_.at(name); }
  /// Whether no operation may begin at present, because a communicator is being created.
  bool is_paused() const { return is_paused_; }

  /// Handles a message of the same object of another process.
  void receive_message(MessageReader& message);
  void progress();

  /// Abandons all channels at the same time; see NcclCommunicator::abort.
  void abandon() noexcept;
  bool is_abandoned() const { return is_abandoned_; }
  /// Closes all channels, when all ranks are done with them.
  void close();

 private:
  enum class MessageKind : std::uint8_t { request, lock, locked, paused };
  enum class Stage { queued, locked, paused, joined };
  struct Opening {
    ChannelName name;
    NcclId id{};
    std::vector<int> members;
    std::shared_ptr<Channel> channel;
    Stage stage = Stage::queued;
    bool are_all_locked = false;
    bool is_sender_paused = false;
  };

  void enter(const ChannelName& name, const NcclId& id, std::vector<int> members);
  MessageWriter& write(MessageKind kind, const ChannelName& name);
  void lock(Opening& opening);
  bool may_pause(const Opening& opening) const;
  void pause(Opening& opening);
  template <class Is>
  bool are_all(const Is& is) const;

  ProgressEngine& engine_;
  Nccl& nccl_;
  std::map<ChannelName, std::shared_ptr<Channel>> channels_;  // null: requested
  std::deque<Opening> queue_;                                 // the first opening is in progress
  bool is_paused_ = false;
  bool is_abandoned_ = false;
};

}  // namespace heddle
