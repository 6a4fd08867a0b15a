// Finds processes that wait for each other in a cycle, although no process sees all waits. Edge chasing (Chandy, Misra,
// Haas 1983): a rank that waits long sends its wait to the rank that it waits for; a rank that also waits adds its own
// wait and forwards both. A chain that returns to its first rank is a cycle.
//
// A rank that was stopped, or cut off by its link, finds many old probes behind the message that ends its wait, and
// would answer all of them alike. So a cycle counts only under two conditions. First, each wait in it has been answered
// by the rank that it waits for, from within that rank's own wait of the cycle: as an answer arrives after everything
// that the rank had sent before, and the wait outlasted it, only what is sent after the other wait can end this one,
// and so on around the cycle. Second, a round that began after the cycle was first seen has found the very same waits:
// that covers elements, which need not arrive in order with control messages. Internal to the transports between
// processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/transports/processes/message.h"

namespace heddle {

/// A rank that waits; the number differs for each of its waits, and is never 0.
struct WaitLink {
  int rank;
  std::uint64_t number;
  std::string call;
  /// The number of the wait in which the awaited rank last answered this one; 0 if it has not answered.
  std::uint64_t answered_in = 0;
  bool operator==(const WaitLink&) const = default;
};
/// Each link waits for the next one; the chain is sent to the rank that the last one waits for.
struct WaitChain {
  /// The number of chains that the rank of the first link had begun when it began this one.
  std::uint64_t round = 0;
  std::vector<WaitLink> links{};
  bool operator==(const WaitChain&) const = default;
};

void put_chain(MessageWriter& message, const WaitChain& chain);
/// MalformedMessage if there are more links than ranks, or none.
WaitChain get_chain(MessageReader& message, int ranks);

class DeadlockSearch {
 public:
  /// The chain of a new round, with this rank's wait only.
  WaitChain begin(const WaitLink& mine);
  /// The chain with this rank's wait at its end, to be sent on; nothing if it is in the chain already. To be called for
  /// a chain that has arrived while this rank waits, once nothing that arrived with it has ended the wait. RankFailed,
  /// with all waits of the cycle, if this rank is the lowest of a cycle that counts: one rank reports it, so that all
  /// print the same.
  std::optional<WaitChain> extend(WaitChain chain, const WaitLink& mine);

 private:
  std::uint64_t rounds_ = 0;
  std::vector<WaitLink> cycle_;  // the last one seen
  std::uint64_t seen_in_ = 0;    // the newest round when it was seen first
};

}  // namespace heddle
