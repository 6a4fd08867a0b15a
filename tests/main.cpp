// Runs the tests: in one process, or as one rank of the job that started this process.
#define DOCTEST_CONFIG_IMPLEMENT
#include <iostream>

#include <doctest/doctest.h>

#include "parallel/transports/join_job.h"
#include "parallel/transports/processes/mpi/mpi_wire.h"
#include "tests/support/devices.h"
#include "tests/support/transports.h"

// The program expects that an allocation may fail; the sanitizers would end the process there.
// Stacks of 30 calls with each allocation would take a sixth of the time, and 256 MiB of freed memory that is not used
// again, a tenth.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:malloc_context_size=6:quarantine_size_mb=16";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace heddle::test {

namespace {

int run_tests(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (test::tested_backend() == "cpu") context.addFilter("test-suite-exclude", test::beside_cpu);
  if (test::is_sanitized) context.addFilter("test-suite-exclude", test::long_under_sanitizers);
  std::unique_ptr<Wire> wire = launch_of_environment() ? join_by_mpi() : nullptr;
  if (!wire) return context.run();
  Job job(std::move(wire));
  test::job = &job;
  // Rank 0 alone reports the tests that passed; every rank reports those that failed.
  if (job.rank() > 0) context.setOption("minimal", true);
  const int code = context.run();
  job.leave(code);
  return code;
}

}  // namespace

}  // namespace heddle::test

int main(int argc, char** argv) {
  try {
    return heddle::test::run_tests(argc, argv);
  } catch (const heddle::Error& error) {  // errors of the job that it was to join
    std::cerr << "heddle_tests: " << error.what() << "\n";
    return 2;
  }
}
