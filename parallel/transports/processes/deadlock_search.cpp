#include "parallel/transports/processes/deadlock_search.h"

#include <algorithm>
#include <utility>

#include "framework/error.h"

namespace heddle {

namespace {

using Cycle = std::vector<WaitLink>;

bool have_same_waits(const Cycle& a, const Cycle& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const WaitLink& x, const WaitLink& y) { return x.rank == y.rank && x.number == y.number; });
}

/// Whether each link's rank was answered by the next one from within its wait of this cycle.
bool is_answered(const Cycle& cycle) {
  for (std::size_t i = 0; i < cycle.size(); ++i)
    if (cycle[i].answered_in != cycle[(i + 1) % cycle.size()].number) return false;
  return true;
}

[[noreturn]] void fail_deadlock(const Cycle& cycle) {
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i)
    text += fmt::format("; {} waits for rank {}", cycle[i].call, cycle[(i + 1) % cycle.size()].rank);
  fail<RankFailed>("deadlock: {}", text.substr(2));
}

}  // namespace

void put_chain(MessageWriter& message, const WaitChain& chain) {
  message.put(chain.round);
  message.put(chain.links.size());
  for (const WaitLink& link : chain.links) {
    message.put(link.rank);
    message.put(link.number);
    message.put(link.answered_in);
    message.put_text(link.call);
  }
}

WaitChain get_chain(MessageReader& message, int ranks) {
  WaitChain chain{.round = message.get<std::uint64_t>()};
  const auto links = message.get<std::size_t>();
  if (links < 1 || links > static_cast<std::size_t>(ranks)) fail<MalformedMessage>("a chain of {} waits", links);
  chain.links.resize(links);
  for (WaitLink& link : chain.links) {
    link.rank = message.get<int>();
    link.number = message.get<std::uint64_t>();
    link.answered_in = message.get<std::uint64_t>();
    link.call = message.get_text();
  }
  return chain;
}

WaitChain DeadlockSearch::begin(const WaitLink& mine) {
  return {++rounds_, {mine}};
}

std::optional<WaitChain> DeadlockSearch::extend(WaitChain chain, const WaitLink& mine) {
  Cycle& links = chain.links;
  const auto is_mine = [&mine](const WaitLink& link) { return link.rank == mine.rank; };
  if (std::none_of(links.begin(), links.end(), is_mine)) {
    links.push_back(mine);
    return chain;
  }
  // Other ranks find their own cycles; this rank's counts only while it is still in the same wait.
  if (!is_mine(links.front()) || links.front().number != mine.number) return {};
  const auto is_lower = [&mine](const WaitLink& link) { return link.rank < mine.rank; };
  if (std::any_of(links.begin(), links.end(), is_lower)) return {};
  if (!have_same_waits(links, cycle_)) {
    cycle_ = std::move(links);
    seen_in_ = rounds_;
  } else if (chain.round > seen_in_ && is_answered(links)) {
    fail_deadlock(links);
  }
  return {};
}

}  // namespace heddle
