#include "parallel/communicator/core_binding.h"

#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/ranks.h"

namespace heddle::test {
namespace {

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

TEST_CASE("Ranks on plan run on one core if there are more of them than cores, and their creator is free afterwards") {
  const int before = usable_cores();
  WorldOptions options = ranks(before + 1, "plan");
  std::vector<int> of_ranks(static_cast<std::size_t>(before) + 1);
  run_ranks(options, [&](Rank& rank) { of_ranks[static_cast<std::size_t>(rank.index)] = usable_cores(); });
  if (before < 32) CHECK(of_ranks == std::vector<int>(of_ranks.size(), 1));
  CHECK(usable_cores() == before);
  CHECK_THROWS(run_ranks(options, [](Rank&) { throw std::runtime_error("ends"); }));
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
