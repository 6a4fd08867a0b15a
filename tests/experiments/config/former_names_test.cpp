// What older experiments say in other words.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/config/study.h"
#include "experiments/config/writer.h"
#include "experiments/training/experiment.h"
#include "framework/error.h"

namespace heddle::test::former_names_test {

namespace {

using Json = nlohmann::json;

Experiment read(const std::string& keys, const std::vector<std::string>& sets = {}) {
  const std::string text = R"({"name": "old", "data": {"type": "synthetic_identities"}, "model": {"type": "mlp"},
                              "head": {"classes": 10000})" +
                           keys + "}";
  return std::move(read_study_text<Experiment>(text, "old.json", sets).variants[0].root);
}

Json written(Experiment experiment) {
  const std::vector<NamedBody> bodies{{"old", [&](Describer& d) { describe(d, experiment); }}};
  return Json::parse(write_experiment(bodies));
}

}  // namespace

TEST_CASE("a transport's former name is read, and written back as its present name") {
  const Experiment experiment = read(R"(, "transport": "mpi")");
  CHECK(experiment.transport == "processes");
  CHECK(written(experiment)["transport"] == "processes");
  CHECK_THROWS_WITH_AS(read("", {"transport=\"mpj\""}),
                       "--set transport: expected \"threads\", \"processes\" or \"nccl\", got \"mpj\"", InputError);
}

TEST_CASE("winograd was a flag, whose values are read and written back as the present names") {
  CHECK(written(read(""))["winograd"] == "auto");
  CHECK(written(read(R"(, "winograd": true)"))["winograd"] == "auto");
  CHECK(written(read(R"(, "winograd": false)"))["winograd"] == "off");
  CHECK(read("", {"winograd=false"}).winograd == WinogradUse::off);
  CHECK(read("", {"winograd=off"}).winograd == WinogradUse::off);
  CHECK_THROWS_WITH_AS(read("", {"winograd=on"}), "--set winograd: expected \"auto\" or \"off\", got \"on\"",
                       InputError);
  CHECK_THROWS_WITH_AS(read("", {"winograd=1"}), "--set winograd: expected \"auto\" or \"off\", got 1", InputError);
}

}  // namespace heddle::test::former_names_test
