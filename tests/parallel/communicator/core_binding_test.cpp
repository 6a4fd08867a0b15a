#include "parallel/communicator/core_binding.h"

#include <thread>

#include <doctest/doctest.h>

namespace heddle::test {
namespace {

int usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

TEST_CASE("A thread on one core has it, as have the threads that it creates, until it may use all cores again") {
  const int before = usable_cores();
  {
    const OnOneCore here;
    CHECK(usable_cores() == 1);
    int inherited = 0;
    std::thread([&] { inherited = usable_cores(); }).join();
    CHECK(inherited == 1);
    const OnOneCore again;
    CHECK(usable_cores() == 1);
  }
  CHECK(usable_cores() == before);
}

TEST_CASE("A thread that is bound to a core that does not exist stays where it is") {
  const int before = usable_cores();
  bind_thread(-1);
  bind_thread(CPU_SETSIZE);
  CHECK(usable_cores() == before);
}

}  // namespace
}  // namespace heddle::test
