#include "experiments/config/json_identity.h"

#include "experiments/config/document.h"
#include "experiments/config/first_change.h"
#include "experiments/config/writer.h"

namespace heddle {
namespace {

std::optional<Experiment> read_experiment(std::string_view text) {
  try {
    Experiment experiment;
    read(parse_document(text, "a checkpoint"), [&](Describer& d) { describe(d, experiment); });
    return experiment;
  } catch (const InputError&) {
    return {};  // written by a program with other keys
  }
}

}  // namespace

ExperimentIdentity json_identity() {
  return {.form = "json",
          .text = [](Experiment experiment) { return write_json([&](Describer& d) { describe(d, experiment); }); },
          .first_change = first_change,
          .read = read_experiment};
}

}  // namespace heddle
