// A rank's NCCL communicators: how they come into existence, one at a time, and how they end.
//
// While a communicator comes into existence and connects, NCCL allocates, and CUDA may let that wait for all that the
// GPU does. Where the GPU has a kernel of another communicator, which waits for another rank's, ranks could so wait for
// each other in a circle. Therefore a communicator begins only when none of its ranks' others moves anything, and these
// begin nothing until it is connected:
//
//   turn    Its ranks are taken in ascending order, each by one opening at a time, so that openings do not wait for
//           each other in a circle: `lock` goes from rank to rank, and the last says `locked` to all.
//   still   Then they stop to begin what is put on their other lanes. In a group all have come to a collective and wait
//           for nothing but this. Of a pair the receiver does, but the sender is anywhere: it first ends what it has
//           put, which may wait for the receiver, and then says `still` to it.
//   join    When nothing is under way any more.
//
// A group opens its lane in its first collective of large tensors, all of its ranks together. A pair does with the
// first large message: to open those of all pairs at the beginning would take p (p - 1) communicators with their
// buffers, and a pipeline's neighbours need few of them. Each direction has one, so that messages that cross do not
// wait for each other. All of them stay until the section ends, also those of groups that are let go.
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

/// Names a lane, alike on all its ranks.
struct ChannelName {
  NcclUse use = NcclUse::collectives;
  std::uint64_t group = 0;  // of collectives
  int sender = -1;          // of messages, by world rank
  int receiver = -1;
  auto operator<=>(const ChannelName&) const = default;
};

class Channels {
 public:
  Channels(ProgressEngine& engine, Nccl& nccl) : engine_(engine), nccl_(nccl) {}

  /// The lane, once it is open; null before, while `progress` opens it. To be asked for by all ranks of a group, when
  /// all have come to a call, and by the receiver of messages. `members` are world ranks in the communicator's order.
  std::shared_ptr<Channel> open(const ChannelName& name, const std::vector<int>& members);
  /// One that its other ranks know to be open.
  const std::shared_ptr<Channel>& at(const ChannelName& name) const { return channels_.at(name); }
  /// Whether nothing is begun at present, because a communicator comes into existence.
  bool pause() const { return is_paused_; }

  /// What the same object of another process wrote.
  void receive_message(MessageReader& message);
  void progress();

  /// All of them at the same time, see NcclCommunicator::abort.
  void abandon() noexcept;
  bool is_abandoned() const { return is_abandoned_; }
  /// When all ranks are done with them.
  void close();

 private:
  enum class MessageKind : std::uint8_t { request, lock, locked, still };
  enum class Stage { queued, locked, still, joined };
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
  MessageWriter& write(MessageKind word, const ChannelName& name);
  void lock(Opening& opening);
  bool may_pause(const Opening& opening) const;
  void pause(Opening& opening);
  template <class Is>
  bool are_all(const Is& is) const;

  ProgressEngine& engine_;
  Nccl& nccl_;
  std::map<ChannelName, std::shared_ptr<Channel>> channels_;  // null: asked for
  std::deque<Opening> queue_;                                 // of openings; the first one has its turn
  bool is_paused_ = false;
  bool is_abandoned_ = false;
};

}  // namespace heddle
