// The computing threads of a rank.
#include "framework/backends/cpu/loops/thread_team.h"

#include <cstddef>

#include <doctest/doctest.h>
#include <pthread.h>

#include "framework/error.h"

namespace heddle::test {

TEST_CASE("a rank for which the system starts no computing threads is out of memory, and the process goes on") {
  pthread_attr_t before;
  REQUIRE(::pthread_getattr_default_np(&before) == 0);
  pthread_attr_t huge;
  REQUIRE(::pthread_getattr_default_np(&huge) == 0);
  REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47) == 0);  // more than a process can map
  REQUIRE(::pthread_setattr_default_np(&huge) == 0);
  CHECK_THROWS_WITH_AS(cpu::start_thread_team(3),
                       "cpu: the system starts only 1 of this rank's 3 computing threads, perhaps because of a limit "
                       "(ulimit -v, ulimit -u)",
                       OutOfMemory);
  CHECK_NOTHROW(cpu::start_thread_team(1));
  REQUIRE(::pthread_setattr_default_np(&before) == 0);
  ::pthread_attr_destroy(&huge);
  ::pthread_attr_destroy(&before);
  CHECK_NOTHROW(cpu::start_thread_team(3));
}

}  // namespace heddle::test
