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

class PostOffice;

/// Names a lane, alike on all its ranks.
struct LaneName {
  NcclUse use = NcclUse::collectives;
  std::uint64_t group = 0;  // of collectives
  int sender = -1;          // of messages, by world rank
  int receiver = -1;
  auto operator<=>(const LaneName&) const = default;
};

class Lanes {
 public:
  Lanes(PostOffice& office, Nccl& nccl) : office_(office), nccl_(nccl) {}

  /// The lane, once it is open; null before, while `progress` opens it. To be asked for by all ranks of a group, when
  /// all have come to a call, and by the receiver of messages. `members` are world ranks in the communicator's order.
  std::shared_ptr<Lane> open(const LaneName& name, const std::vector<int>& members);
  /// One that its other ranks know to be open.
  const std::shared_ptr<Lane>& at(const LaneName& name) const { return lanes_.at(name); }
  /// Whether nothing is begun at present, because a communicator comes into existence.
  bool stand_still() const { return stands_still_; }

  /// What the same object of another process wrote.
  void told(LetterReader& letter);
  void progress();

  /// All of them at the same time, see NcclCommunicator::abort.
  void abandon() noexcept;
  bool is_abandoned() const { return is_abandoned_; }
  /// When all ranks are done with them.
  void close();

 private:
  enum class Word : std::uint8_t { wish, lock, locked, still };
  enum class Stage { in_line, locked, still, joined };
  struct Opening {
    LaneName name;
    NcclId id{};
    std::vector<int> members;
    std::shared_ptr<Lane> lane;
    Stage stage = Stage::in_line;
    bool are_all_locked = false;
    bool is_sender_still = false;
  };

  void enter(const LaneName& name, const NcclId& id, std::vector<int> members);
  LetterWriter& write(Word word, const LaneName& name);
  void lock(Opening& opening);
  bool may_stand_still(const Opening& opening) const;
  void stand_still(Opening& opening);
  template <class Is>
  bool are_all(const Is& is) const;

  PostOffice& office_;
  Nccl& nccl_;
  std::map<LaneName, std::shared_ptr<Lane>> lanes_;  // null: asked for
  std::deque<Opening> line_;                         // of openings; the first one has its turn
  bool stands_still_ = false;
  bool is_abandoned_ = false;
};

}  // namespace heddle
