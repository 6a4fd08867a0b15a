#include <doctest/doctest.h>

#include "experiments/training/experiment.h"

namespace heddle::test {
namespace {

TEST_CASE("relative paths of data and of evaluation sets begin at data_folder, once") {
  Experiment experiment;
  experiment.data_folder = "faces";
  experiment.data.type = DataType::image_folder;
  experiment.data.image_folder.path = "lfw";
  experiment.data.image_folder.people = "/lists/people.txt";
  experiment.data.recordio.train = "other.rec";
  experiment.evaluation.sets = {{.name = "pairs", .path = "lfw", .list = "lists/pairs.txt"}};
  for (int i = 0; i < 2; ++i) {
    resolve_paths(experiment);
    CHECK(experiment.data_folder.empty());
    CHECK(experiment.data.image_folder.path == "faces/lfw");
    CHECK(experiment.data.image_folder.people == "/lists/people.txt");
    CHECK(experiment.data.image_folder.test_people.empty());
    CHECK(experiment.data.recordio.train == "other.rec");  // not the data of this experiment
    CHECK(experiment.evaluation.sets[0].path == "faces/lfw");
    CHECK(experiment.evaluation.sets[0].list == "faces/lists/pairs.txt");
    CHECK(experiment.evaluation.sets[0].gallery.empty());
  }
}

}  // namespace
}  // namespace heddle::test
