// Runs the tests: in one process, or as one rank of a job that HEDDLE_TEST_TRANSPORT=mpi says this process is part of.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/transports.h"

int main(int argc, char** argv) {
  using namespace heddle;
  doctest::Context context(argc, argv);
  if (test::ranks_share_a_process()) return context.run();
  Processes job(join_job());
  test::job = &job;
  // One report of what passed; of what failed everybody's.
  if (job.rank() > 0) context.setOption("minimal", true);
  const int code = context.run();
  job.leave();
  return code;
}
