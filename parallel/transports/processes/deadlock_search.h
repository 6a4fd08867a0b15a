// Processes that wait for each other in a circle, found without one that sees them all. Edge chasing (Chandy, Misra,
// Haas 1983): a rank that waits long sends its wait to the rank that it waits for; a rank that waits too adds its own
// and sends both on. A chain that comes back to its first rank is a circle.
//
// A rank that was stopped, or cut off by its link, finds many old probes behind the message that ends its wait, and
// would answer all of them alike. So a circle counts only under two conditions. Each wait in it has been answered by
// the rank that it waits for, from within that rank's own wait of the circle: as an answer comes after everything that
// the rank had sent before, and the wait outlasted it, only what is sent after the other wait can end this one, and so
// around the circle. And a round that began after the circle was first seen has found the very same waits: that covers
// elements, which need not arrive in order with words. Internal to the transport of many processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/transports/processes/message.h"

namespace heddle {

/// A rank that waits; the number is another for each of its waits, and never 0.
struct WaitLink {
  int rank;
  std::uint64_t number;
  std::string call;
  /// The wait in which the rank that this one waits for has last answered it; 0: it has not.
  std::uint64_t answered_in = 0;
  bool operator==(const WaitLink&) const = default;
};
/// Each link waits for the next one; the chain is sent to the rank that the last one waits for.
struct WaitChain {
  /// How many chains the first link's rank had begun when it began this one.
  std::uint64_t round = 0;
  std::vector<WaitLink> links{};
  bool operator==(const WaitChain&) const = default;
};

void put_chain(MessageWriter& message, const WaitChain& chain);
/// MalformedMessage for more links than there are ranks, or for none.
WaitChain get_chain(MessageReader& message, int ranks);

class DeadlockSearch {
 public:
  /// A new round's chain, of this rank's wait alone.
  WaitChain begin(const WaitLink& mine);
  /// The chain with this rank's wait at its end, to be sent on; nothing if it is in the chain already. To be called for
  /// a chain that has come while this rank waits, once everything that came with it has not ended the wait. RankFailed,
  /// with all the circle's waits, if this rank is the lowest of a circle that counts: one rank reports it, so that all
  /// print the same.
  std::optional<WaitChain> extend(WaitChain chain, const WaitLink& mine);

 private:
  std::uint64_t rounds_ = 0;
  std::vector<WaitLink> cycle_;  // the last one that was seen
  std::uint64_t seen_in_ = 0;    // the newest round when it was seen first
};

}  // namespace heddle
