// How circles of processes that wait for each other are found; whole ones are in communicator_failures_test.cpp.
#include "parallel/transports/processes/deadlock_search.h"

#include <doctest/doctest.h>

#include "framework/error.h"

namespace heddle::test {

namespace {

const WaitLink first{0, 7, "rank 0: recv"};
const WaitLink second{1, 3, "rank 1: recv"};
const WaitLink third{2, 9, "rank 2: send"};

}  // namespace

TEST_CASE("deadlock search: each rank that waits adds its wait once, and passes the chain on") {
  DeadlockSearch search;
  CHECK(search.extend({}, first) == WaitChain{first});
  CHECK(search.extend({second}, first) == WaitChain{second, first});
  CHECK_FALSE(search.extend({third, first, second}, first));  // another's to find
}

TEST_CASE("deadlock search: the lowest rank of a circle tells it, when it has seen the same waits twice") {
  const WaitChain circle{first, second, third};
  DeadlockSearch search;
  CHECK_FALSE(search.extend(circle, first));
  CHECK_THROWS_WITH_AS(
      search.extend(circle, first),
      "deadlock: rank 0: recv waits for rank 1; rank 1: recv waits for rank 2; rank 2: send waits for rank 0",
      RankFailed);
  DeadlockSearch of_second;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(of_second.extend({second, third, first}, second));
}

TEST_CASE("deadlock search: waits that have ended since make no circle") {
  DeadlockSearch search;
  CHECK_FALSE(search.extend({first, second}, first));
  const WaitLink later{1, 4, second.call};
  CHECK_FALSE(search.extend({first, later}, first));
  CHECK_FALSE(search.extend({first, second}, {0, 8, first.call}));
}

TEST_CASE("deadlock search: a chain travels in a letter, and one longer than the job is refused") {
  LetterWriter letter;
  put_chain(letter, {first, second});
  LetterReader reader(letter.bytes());
  CHECK(get_chain(reader, 2) == WaitChain{first, second});
  LetterReader too_long(letter.bytes());
  CHECK_THROWS_WITH_AS(get_chain(too_long, 1), "a chain of 2 waits", StrangeLetter);
  LetterWriter huge;
  huge.put(std::size_t{1} << 60);
  LetterReader of_huge(huge.bytes());
  CHECK_THROWS_WITH_AS(get_chain(of_huge, 1000), "a chain of 1152921504606846976 waits", StrangeLetter);
}

}  // namespace heddle::test
