// Which mesh an elastic job takes, and the errors of `run --elastic`. tests/faults kills processes of such jobs.
#include "experiments/program/job/elastic.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/program/called.h"

namespace heddle::test {
namespace {

using Json = nlohmann::json;

Json elastic_study() {
  Json experiment = small_study();
  experiment["mesh"] = {{"dp", 4}};
  experiment["train"]["batch"] = 64;
  experiment["elastic"] = {{"meshes", {{{"dp", 2}}, {{"pp", 2}}}}};
  return experiment;
}

}  // namespace

TEST_CASE("elastic: the first mesh that has no more ranks than there are processes, the experiment's own first") {
  Files files;
  const std::string file = files.write(elastic_study());
  const std::string four = R"(mesh={"dp":4,"pp":1,"tp":1})";
  const std::string two = R"(mesh={"dp":2,"pp":1,"tp":1})";
  for (const auto& [processes, set] : {std::pair{5, four}, {4, four}, {3, two}, {2, two}}) {
    CHECK(fitting_mesh(file, {}, processes).set == set);
    CHECK(fitting_mesh(file, {}, processes).preferred == 4);
  }
  CHECK(fitting_mesh(file, {"mesh.dp=2"}, 4).set == two);
  CHECK_THROWS_WITH_AS(fitting_mesh(file, {}, 1),
                       "--elastic: the smallest mesh of small has 2 ranks, and there is 1 process", InputError);
  CHECK_THROWS_WITH_AS(fitting_mesh(file, {"elastic.meshes=[]"}, 3),
                       "--elastic: the smallest mesh of small has 4 ranks, and there are 3 processes", InputError);
}

TEST_CASE("elastic: every mesh must fit the experiment, which has one variant and is saved") {
  Files files;
  Json experiment = elastic_study();
  const std::string file = files.write(experiment);
  CHECK_THROWS_WITH_AS(fitting_mesh(file, {"train.save=false"}, 4),
                       "--elastic: without checkpoints there is nothing to continue from: train.save is false",
                       InputError);
  experiment["variants"] = {{{"name", "a"}}, {{"name", "b"}, {"patch", {{"seed", 2}}}}};
  CHECK_THROWS_WITH_AS(fitting_mesh(files.write(experiment, "variants.json"), {}, 4),
                       "--elastic: expected an experiment with one variant, small has 2", InputError);
  const Called wrong = call({"validate", file, "--set", R"(elastic.meshes=[{"dp":2},{"pp":64}])"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("elastic.meshes[1]: ") != std::string::npos);
}

TEST_CASE("elastic: a process alone is an error, and so is a new head") {
  Files files;
  const std::string file = files.write(elastic_study());
  const Called alone = call({"run", file, "--out", files.path("out"), "--elastic"});
  CHECK(alone.code == 2);
  CHECK(alone.err ==
        "heddle: --elastic: expected a job of processes that are connected by sockets, with RANK, WORLD_SIZE, "
        "MASTER_ADDR "
        "and MASTER_PORT for each\n");
  const Called grown = call({"run", file, "--resume", "--grow-head", "--elastic"});
  CHECK(grown.code == 2);
}

}  // namespace heddle::test
