#include <deque>
#include <string>

#include <doctest/doctest.h>

#include "experiments/config/study.h"
#include "tests/support/config_sample.h"
#include "tests/support/files/mutations.h"

namespace heddle::test {

using namespace std::string_literals;

namespace {

void read_study_of(const std::string& text, const std::vector<std::string>& sets) {
  std::deque<Sample> samples;
  (void)read_experiment_text(text, "x.json", sets,
                             [&]() -> Describer::Body { return body_of(samples.emplace_back()); });
}

}  // namespace

TEST_CASE("config: mutated experiments, studies and settings are read or refused") {
  const std::string experiment = R"({"name": "a", "device": "plan", "seed": 12, "tags": ["x\u00e9", "y"],
    "data": {"type": "image_folder", "path": "p", "image": [1, 56, 64]},
    "layers": [{"type": "linear", "units": 7}, {"type": "residual", "layers": [{"type": "dropout", "rate": 0.25}]}],
    "train": {"batch": 3.2e1, "shuffle": false, "clip": null, "optimizer": {"type": "adamw", "betas": [0, 1e-1]}}})";
  const std::string study =
      R"({"name": "base", "seed": 3, "data": {"type": "synthetic"}, "layers": [{"type": "linear"}],
    "train": {"optimizer": {"lr": 1}},
    "variants": [{"name": "a", "patch": {"seed": null, "train": {"optimizer": {"type": "adamw", "lr": 2}}}},
                 {"name": "b", "patch": {"layers": [{"type": "residual", "layers": [{"type": "linear"}]}]}}]})";
  const std::string set = "layers.0.type=\"dropout\"";
  const std::string inserted = "{}[]\",:0123456789.eE+-\\ntfu\"/= \0\x80\xff"s;
  read_study_of(experiment, {});
  read_study_of(study, {set});
  check_mutations(6000, 0.5, "", [&](RandomStream& draws) {
    const bool is_study = draws.below(2) == 0;
    std::string text = is_study ? study : experiment;
    std::string setting = set;
    const std::uint64_t changed = draws.below(4);
    if (changed < 3) text = mutated(text, inserted, draws);
    if (changed > 1) setting = mutated(setting, inserted, draws);
    if (is_study || changed > 1)
      read_study_of(text, {setting});
    else
      read_study_of(text, {});
  });
}

}  // namespace heddle::test
