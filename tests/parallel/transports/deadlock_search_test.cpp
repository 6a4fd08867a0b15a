// How cycles of processes that wait for each other are found; whole ones are in communicator_failures_test.cpp.
#include "parallel/transports/processes/deadlock_search.h"

#include <doctest/doctest.h>

#include "framework/error.h"

namespace heddle::test {

namespace {

// Each has had an answer from the next one.
const WaitLink first{0, 7, "rank 0: recv", 3};
const WaitLink second{1, 3, "rank 1: recv", 9};
const WaitLink third{2, 9, "rank 2: send", 7};
constexpr const char* cycle_of_three =
    "deadlock: rank 0: recv waits for rank 1; rank 1: recv waits for rank 2; rank 2: send waits for rank 0";

/// What comes back to the first link's rank of a chain that it begins now.
WaitChain round_of(DeadlockSearch& search, const std::vector<WaitLink>& cycle) {
  return {search.begin(cycle[0]).round, cycle};
}

}  // namespace

TEST_CASE("deadlock search: each rank that waits adds its wait once, and passes the chain on") {
  DeadlockSearch search;
  CHECK(search.begin(first) == WaitChain{1, {first}});
  CHECK(search.begin(first) == WaitChain{2, {first}});
  CHECK(search.extend({5, {second}}, first) == WaitChain{5, {second, first}});
  CHECK_FALSE(search.extend({5, {third, first, second}}, first));  // another's to find
}

TEST_CASE("deadlock search: the lowest rank of a cycle reports it, when a second round finds the same waits") {
  const std::vector<WaitLink> cycle{first, second, third};
  DeadlockSearch search;
  CHECK_FALSE(search.extend(round_of(search, cycle), first));
  CHECK_THROWS_WITH_AS(search.extend(round_of(search, cycle), first), cycle_of_three, RankFailed);
  DeadlockSearch of_second;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(of_second.extend(round_of(of_second, {second, third, first}), second));
}

TEST_CASE("deadlock search: old probes that a rank finds when it wakes, and answers alike, make no cycle") {
  const std::vector<WaitLink> cycle{first, second, third};
  DeadlockSearch search;
  std::vector<WaitChain> queued;
  for (int i = 0; i < 5; ++i) queued.push_back(round_of(search, cycle));
  for (const WaitChain& chain : queued) CHECK_FALSE(search.extend(chain, first));
  CHECK_THROWS_WITH_AS(search.extend(round_of(search, cycle), first), cycle_of_three, RankFailed);
}

TEST_CASE("deadlock search: a wait that its peer has not answered from within the cycle makes none") {
  for (const std::uint64_t answered_in : {0, 8}) {
    WaitLink other = second;
    other.answered_in = answered_in;
    DeadlockSearch search;
    for (int i = 0; i < 3; ++i) CHECK_FALSE(search.extend(round_of(search, {first, other, third}), first));
    CHECK_THROWS_WITH_AS(search.extend(round_of(search, {first, second, third}), first), cycle_of_three, RankFailed);
  }
}

TEST_CASE("deadlock search: waits that have ended since make no cycle") {
  DeadlockSearch search;
  const WaitLink back{1, 3, second.call, 7};
  CHECK_FALSE(search.extend(round_of(search, {first, back}), first));
  const WaitLink later{1, 4, second.call, 7};
  CHECK_FALSE(search.extend(round_of(search, {first, later}), first));
  CHECK_FALSE(search.extend(round_of(search, {first, back}), {0, 8, first.call}));
}

TEST_CASE("deadlock search: a chain travels in a message, and one longer than the job is refused") {
  MessageWriter message;
  put_chain(message, {4, {first, second}});
  MessageReader reader(message.bytes());
  CHECK(get_chain(reader, 2) == WaitChain{4, {first, second}});
  MessageReader too_long(message.bytes());
  CHECK_THROWS_WITH_AS(get_chain(too_long, 1), "a chain of 2 waits", MalformedMessage);
  MessageWriter huge;
  huge.put(std::uint64_t{1});  // its round
  huge.put(std::size_t{1} << 60);
  MessageReader of_huge(huge.bytes());
  CHECK_THROWS_WITH_AS(get_chain(of_huge, 1000), "a chain of 1152921504606846976 waits", MalformedMessage);
}

}  // namespace heddle::test
