// Experiments that the program writes.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/config/study.h"
#include "experiments/config/writer.h"
#include "experiments/training/experiment.h"
#include "tests/support/devices.h"
#include "tests/support/files/source_folder.h"

namespace heddle::test::written_experiments_test {

namespace {

std::vector<NamedBody> bodies_of(heddle::Study<Experiment>& study) {
  std::vector<NamedBody> bodies;
  for (auto& variant : study.variants)
    bodies.push_back({variant.name, [&root = variant.root](Describer& d) { describe(d, root); }});
  return bodies;
}

}  // namespace

TEST_CASE("shipped experiments read back the same from their whole text and from the one without defaults" *
          doctest::test_suite(test::long_under_sanitizers)) {
  Experiment defaults;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "experiments")) {
    const std::string file = entry.path().string();
    if (entry.path().extension() != ".json" || file.ends_with(".schema.json")) continue;
    CAPTURE(file);
    heddle::Study<Experiment> study = read_study<Experiment>(file, {});
    const std::string whole = write_experiment(bodies_of(study));
    const std::string brief = write_short_experiment(bodies_of(study), [&](Describer& d) { describe(d, defaults); });
    CHECK(brief.size() < whole.size());
    for (const std::string& text : {whole, brief}) {
      heddle::Study<Experiment> again = read_study_text<Experiment>(text, "again.json", {});
      CHECK(write_experiment(bodies_of(again)) == whole);
    }
  }
}

}  // namespace heddle::test::written_experiments_test
