// Every schedule as large as a planner asks for.
#include <doctest/doctest.h>

#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/simulation.h"
#include "parallel/pipeline/validation.h"

namespace heddle::test {

TEST_CASE("schedules: 256 ranks and 1,024 micro-batches are made, given their messages, and validated") {
  for (const ScheduleType& type : schedule_types()) {
    CAPTURE(type.name);
    const Schedule schedule = make_schedule(type.name, {256, 1024, type.min_chunks});
    CHECK_FALSE(validate(schedule));
    CHECK_FALSE(validate(with_communication(with_loss(schedule, LossForm::on_all))));
  }
}

TEST_CASE("schedules: 1,024 ranks and 4,096 micro-batches are simulated") {
  const Simulation whole = simulate(make_schedule("1f1b", {1024, 4096}), {});
  CHECK(whole.step_time == 3 * (4096 + 1023));
  CHECK(whole.peak_activations.front() == 1024);
  const Simulation parts = simulate(make_schedule("zb_h1", {1024, 4096}), {});
  CHECK(parts.step_time == 3 * 4096 + 1023);
}

}  // namespace heddle::test
