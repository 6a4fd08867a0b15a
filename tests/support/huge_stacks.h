// A process in which the system starts no more threads.
#pragma once

#include <cstddef>

#include <doctest/doctest.h>
#include <pthread.h>

namespace heddle::test {

/// While this exists, new threads would have stacks that are larger than what a process can map.
class HugeStacks {
 public:
  HugeStacks() {
    REQUIRE(::pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge;
    REQUIRE(::pthread_getattr_default_np(&huge) == 0);
    REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47) == 0);
    REQUIRE(::pthread_setattr_default_np(&huge) == 0);
    ::pthread_attr_destroy(&huge);
  }
  ~HugeStacks() {
    CHECK(::pthread_setattr_default_np(&before_) == 0);
    ::pthread_attr_destroy(&before_);
  }
  HugeStacks(const HugeStacks&) = delete;
  HugeStacks& operator=(const HugeStacks&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace heddle::test
