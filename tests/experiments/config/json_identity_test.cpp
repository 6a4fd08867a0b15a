#include "experiments/config/json_identity.h"

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("the text of a checkpoint is read again with the defaults of keys that it lacks") {
  const ExperimentIdentity identity = json_identity();
  Experiment experiment;
  experiment.head.classes = 12;
  std::string text = identity.text(experiment);
  const std::string whole = text;
  const std::string member = "\"seed\": " + std::to_string(experiment.seed) + ",";
  const std::size_t at = text.find(member);
  REQUIRE(at != std::string::npos);
  text.erase(at, member.size());
  const std::optional<Experiment> read = identity.read(text);
  REQUIRE(read);
  CHECK(identity.text(*read) == whole);
  CHECK_FALSE(identity.read("{\"no_such_key\": 1}"));
  CHECK_FALSE(identity.read("no JSON"));
}

}  // namespace heddle::test
