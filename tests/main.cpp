// Runs the tests: in one process, or as one rank of the job that started this process.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/devices.h"
#include "tests/support/transports.h"

int main(int argc, char** argv) {
  using namespace heddle;
  doctest::Context context(argc, argv);
  if (test::tested_backend() == "cpu") context.addFilter("test-suite-exclude", test::beside_cpu);
  std::unique_ptr<Wire> wire = launch_of_environment() ? join_job() : nullptr;
  if (!wire) return context.run();
  Processes job(std::move(wire));
  test::job = &job;
  // One report of what passed; of what failed everybody's.
  if (job.rank() > 0) context.setOption("minimal", true);
  const int code = context.run();
  job.leave(code);
  return code;
}
