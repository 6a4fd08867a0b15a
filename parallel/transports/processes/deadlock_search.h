// Processes that wait for each other in a circle, found without one that sees them all. Edge chasing (Chandy, Misra,
// Haas 1983): a rank that waits long sends its wait to the rank that it waits for; who waits too adds its own and sends
// both on. A chain that comes back to its first rank is a circle. It counts when the next round finds the very same
// waits, so that letters under way cannot feign one. Internal to the transport of many processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/transports/processes/letter.h"

namespace heddle {

/// A rank that waits; the number is another for each of its waits.
struct WaitLink {
  int rank;
  std::uint64_t number;
  std::string call;
  bool operator==(const WaitLink&) const = default;
};
/// Each waits for the next one; whom the last waits for is told where the chain goes.
using WaitChain = std::vector<WaitLink>;

void put_chain(LetterWriter& letter, const WaitChain& chain);
/// StrangeLetter for more links than there are ranks, or for none.
WaitChain get_chain(LetterReader& letter, int ranks);

class DeadlockSearch {
 public:
  /// What goes on to the one that this rank waits for, which is the last of the chain's to wait; an empty chain begins
  /// with it. Nothing where that would tell nothing new. RankFailed, with all the circle's waits, if this rank is the
  /// lowest of a circle that it has now seen twice: one rank tells it, so that all print the same.
  std::optional<WaitChain> extend(WaitChain chain, const WaitLink& mine);

 private:
  WaitChain last_circle_;
};

}  // namespace heddle
