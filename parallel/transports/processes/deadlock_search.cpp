#include "parallel/transports/processes/deadlock_search.h"

#include <algorithm>
#include <utility>

#include "framework/error.h"

namespace heddle {

namespace {

[[noreturn]] void tell_circle(const WaitChain& circle) {
  std::string text;
  for (std::size_t i = 0; i < circle.size(); ++i)
    text += fmt::format("; {} waits for rank {}", circle[i].call, circle[(i + 1) % circle.size()].rank);
  fail<RankFailed>("deadlock: {}", text.substr(2));
}

}  // namespace

void put_chain(LetterWriter& letter, const WaitChain& chain) {
  letter.put(chain.size());
  for (const WaitLink& link : chain) {
    letter.put(link.rank);
    letter.put(link.number);
    letter.put_text(link.call);
  }
}

WaitChain get_chain(LetterReader& letter, int ranks) {
  const auto links = letter.get<std::size_t>();
  if (links < 1 || links > static_cast<std::size_t>(ranks)) fail<StrangeLetter>("a chain of {} waits", links);
  WaitChain chain(links);
  for (WaitLink& link : chain) {
    link.rank = letter.get<int>();
    link.number = letter.get<std::uint64_t>();
    link.call = letter.get_text();
  }
  return chain;
}

std::optional<WaitChain> DeadlockSearch::extend(WaitChain chain, const WaitLink& mine) {
  const auto is_mine = [&mine](const WaitLink& link) { return link.rank == mine.rank; };
  if (std::none_of(chain.begin(), chain.end(), is_mine)) {
    chain.push_back(mine);
    return chain;
  }
  // Others' circles are theirs to find; this rank's counts only while it still waits for the same.
  if (!is_mine(chain.front()) || chain.front().number != mine.number) return {};
  const auto is_lower = [&mine](const WaitLink& link) { return link.rank < mine.rank; };
  if (std::any_of(chain.begin(), chain.end(), is_lower)) return {};
  if (std::exchange(last_circle_, chain) == chain) tell_circle(chain);
  return {};
}

}  // namespace heddle
