// Every shape of a pipeline schedule, within limits.
#pragma once

#include <optional>
#include <string_view>

#include <doctest/doctest.h>

#include "parallel/pipeline/schedules.h"
#include "tests/support/devices.h"

namespace heddle::test {

/// Visits all shapes that a schedule takes: p 1 to 8, m 1 to 16, v 1 to 4; under a sanitizer each fifth of them.
template <class Visit>
void for_each_shape(std::string_view name, const Visit& visit) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m)
      for (int v = 1; v <= 4; ++v) {
        if (is_sanitized && (64 * p + 4 * m + v) % 5 != 0) continue;
        const ScheduleShape shape{p, m, v};
        const std::optional<Schedule> schedule = make_schedule_if_possible(name, shape);
        if (!schedule) continue;
        CAPTURE(name);
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(v);
        visit(shape, *schedule);
      }
}

}  // namespace heddle::test
