#include "experiments/config/json_identity.h"

#include "experiments/config/first_change.h"
#include "experiments/config/writer.h"

namespace heddle {

ExperimentIdentity json_identity() {
  return {.form = "json",
          .text = [](Experiment experiment) { return write_json([&](Describer& d) { describe(d, experiment); }); },
          .first_change = first_change};
}

}  // namespace heddle
