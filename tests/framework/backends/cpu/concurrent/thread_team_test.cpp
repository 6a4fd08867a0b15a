// The computing threads of a rank.
#include "framework/backends/cpu/loops/thread_team.h"

#include <doctest/doctest.h>

#include "framework/error.h"
#include "tests/support/huge_stacks.h"

namespace heddle::test {

TEST_CASE("a rank for which the system starts no computing threads is out of memory, and the process goes on") {
  {
    const HugeStacks no_threads;
    CHECK_THROWS_WITH_AS(cpu::start_thread_team(3),
                         "cpu: the system starts only 1 of this rank's 3 computing threads, perhaps because of a limit "
                         "(ulimit -v, ulimit -u)",
                         OutOfMemory);
    CHECK_NOTHROW(cpu::start_thread_team(1));
  }
  CHECK_NOTHROW(cpu::start_thread_team(3));
}

}  // namespace heddle::test
