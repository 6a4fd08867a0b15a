#include "parallel/transports/processes/deadlock_search.h"

#include <algorithm>
#include <utility>

#include "framework/error.h"

namespace heddle {

namespace {

using Circle = std::vector<WaitLink>;

bool have_same_waits(const Circle& a, const Circle& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const WaitLink& x, const WaitLink& y) { return x.rank == y.rank && x.number == y.number; });
}

/// Whether each link's rank was answered by the next one from within its wait of this circle.
bool is_answered(const Circle& circle) {
  for (std::size_t i = 0; i < circle.size(); ++i)
    if (circle[i].answered_in != circle[(i + 1) % circle.size()].number) return false;
  return true;
}

[[noreturn]] void tell_circle(const Circle& circle) {
  std::string text;
  for (std::size_t i = 0; i < circle.size(); ++i)
    text += fmt::format("; {} waits for rank {}", circle[i].call, circle[(i + 1) % circle.size()].rank);
  fail<RankFailed>("deadlock: {}", text.substr(2));
}

}  // namespace

void put_chain(LetterWriter& letter, const WaitChain& chain) {
  letter.put(chain.round);
  letter.put(chain.links.size());
  for (const WaitLink& link : chain.links) {
    letter.put(link.rank);
    letter.put(link.number);
    letter.put(link.answered_in);
    letter.put_text(link.call);
  }
}

WaitChain get_chain(LetterReader& letter, int ranks) {
  WaitChain chain{.round = letter.get<std::uint64_t>()};
  const auto links = letter.get<std::size_t>();
  if (links < 1 || links > static_cast<std::size_t>(ranks)) fail<StrangeLetter>("a chain of {} waits", links);
  chain.links.resize(links);
  for (WaitLink& link : chain.links) {
    link.rank = letter.get<int>();
    link.number = letter.get<std::uint64_t>();
    link.answered_in = letter.get<std::uint64_t>();
    link.call = letter.get_text();
  }
  return chain;
}

WaitChain DeadlockSearch::begin(const WaitLink& mine) {
  return {++rounds_, {mine}};
}

std::optional<WaitChain> DeadlockSearch::extend(WaitChain chain, const WaitLink& mine) {
  Circle& links = chain.links;
  const auto is_mine = [&mine](const WaitLink& link) { return link.rank == mine.rank; };
  if (std::none_of(links.begin(), links.end(), is_mine)) {
    links.push_back(mine);
    return chain;
  }
  // Others' circles are theirs to find; this rank's counts only while it still waits for the same.
  if (!is_mine(links.front()) || links.front().number != mine.number) return {};
  const auto is_lower = [&mine](const WaitLink& link) { return link.rank < mine.rank; };
  if (std::any_of(links.begin(), links.end(), is_lower)) return {};
  if (!have_same_waits(links, circle_)) {
    circle_ = std::move(links);
    seen_in_ = rounds_;
  } else if (chain.round > seen_in_ && is_answered(links)) {
    tell_circle(links);
  }
  return {};
}

}  // namespace heddle
