#include "experiments/training/ranks/restarts.h"

#include <utility>

#include "experiments/training/ranks/unix_time.h"

namespace heddle {

void begin_result(VariantResult& result, EarlierRun earlier, const std::optional<Restart>& restart,
                  std::int64_t first_step, int ranks) {
  result.first_step = first_step;
  result.steps = std::move(earlier.steps);
  result.restarts = std::move(earlier.restarts);
  if (!restart) return;
  result.restarts.push_back(*restart);
  result.restarts.back().step = first_step;
  result.restarts.back().ranks = ranks;
  (void)end_restart(result, true);  // for a run without a step left
}

const std::vector<Restart>& end_restart(VariantResult& result, bool resumes_after_it) {
  if (resumes_after_it) result.restarts.back().seconds = unix_seconds() - result.restarts.back().failed_at;
  return result.restarts;
}

}  // namespace heddle
