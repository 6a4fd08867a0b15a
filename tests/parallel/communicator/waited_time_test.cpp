// The duration of a wait.
#include "parallel/communicator/waited_time.h"

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("waited time: time in which the process was stopped does not count") {
  using std::chrono::milliseconds;
  const WaitedTime::Clock::time_point begin{};
  WaitedTime time(milliseconds(100), begin);
  CHECK(time.look(begin + milliseconds(30)) == milliseconds(30));
  CHECK(time.look(begin + milliseconds(130)) == milliseconds(130));
  CHECK(time.look(begin + milliseconds(8130)) == milliseconds(230));
  CHECK(time.look(begin + milliseconds(8140)) == milliseconds(240));
}

}  // namespace heddle::test
