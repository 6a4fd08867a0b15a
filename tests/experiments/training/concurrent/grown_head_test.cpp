// Runs that are resumed with other people in the head.
#include "experiments/training/checkpoints/grown_head.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/experiments/training/concurrent/checkpoint_ways.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::grown_head_test {

using namespace checkpoint_ways;

namespace {

Experiment with_classes(Experiment experiment, std::int64_t classes) {
  experiment.head.classes = classes;
  return experiment;
}

bool is_of_head(const std::string& name) {
  return name.find("head.") != std::string::npos;
}

/// Checks that the tensors of a grown head begin with the rows of the saved ones, and go on with those that are drawn.
void check_grown(const test::Tensors& grown, const test::Tensors& saved, const test::Tensors& drawn) {
  for (const auto& [name, values] : grown) {
    CAPTURE(name);
    if (!is_of_head(name)) {
      CHECK(values == saved.at(name));
      continue;
    }
    std::vector<double> expected = saved.at(name);
    const std::vector<double>& fresh = drawn.at(name);
    const auto kept = std::min(expected.size(), fresh.size());
    expected.resize(kept);
    expected.insert(expected.end(), fresh.begin() + static_cast<std::ptrdiff_t>(kept), fresh.end());
    CHECK(values == expected);
  }
}

}  // namespace

TEST_CASE("old classes keep the bits of weights and optimizer state in every layout, and new ones are drawn" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const OptimizerType optimizer : {OptimizerType::sgd, OptimizerType::adamw})
    for (const Way& saver : {ways().front(), ways()[1], ways()[4], ways()[7]}) {
      const Scratch scratch;
      const CheckpointFolder folder(scratch / "");
      const test::Outcome saved = run(saver, experiment_of(saver, optimizer), saving(folder, 2));
      for (const Way& loader : ways())
        for (const std::int64_t classes : {10, 11, 24}) {
          if (!loader.layout.split.empty()) continue;  // of eleven classes
          CAPTURE(to_string(saver.layout.mesh));
          CAPTURE(to_string(loader.layout.mesh));
          CAPTURE(classes);
          const Experiment experiment = with_classes(experiment_of(loader, optimizer), classes);
          const test::Outcome drawn = run(loader, experiment, {});
          std::string note;
          const test::Outcome grown = run(loader, experiment, resuming(folder, 2, 2, &note, SavedHead::grown));
          check_grown(grown.state, saved.state, drawn.state);
          const std::string counts = classes == 10   ? "10 stay, 0 are new, 1 is dropped"
                                     : classes == 11 ? "11 stay, 0 are new, 0 are dropped"
                                                     : "11 stay, 13 are new, 0 are dropped";
          CHECK(note.ends_with(fmt::format("head goes from 11 to {} classes: {}", classes, counts)));
        }
    }
}

TEST_CASE("heads of 8 and 16 bits, with biases or sub-centres, grow with all that they keep of a class") {
  for (const WeightState weights : {WeightState::bf16, WeightState::int8})
    for (const std::int64_t centres : {1, 3}) {
      const auto experiment = [&](const Way& way, std::int64_t classes) {
        Experiment kept = with_classes(experiment_of(way), classes);
        kept.head.weights = weights;
        kept.head.momentum = MomentumState::bf16;
        kept.head.sub_centres = centres;
        kept.head.bias = centres == 1;
        if (kept.head.bias) {
          kept.head.normalize = false;
          kept.head.margin = {.scale = 1};
        }
        return kept;
      };
      const Way saver{{Mesh(2), 2}};
      const Way loader{{Mesh(3), 2, Logits::gathered}};
      const Scratch scratch;
      const CheckpointFolder folder(scratch / "");
      const test::Outcome saved = run(saver, experiment(saver, 11), saving(folder, 2));
      const test::Outcome drawn = run(loader, experiment(loader, 14), {});
      const test::Outcome grown =
          run(loader, experiment(loader, 14), resuming(folder, 2, 2, nullptr, SavedHead::grown));
      check_grown(grown.state, saved.state, drawn.state);
    }
}

TEST_CASE("classes are found by their names, wherever they were, and go on by number where there are none") {
  const auto runs = [](const ClassOrigins& origins) {
    std::vector<std::vector<std::int64_t>> all;
    for (const ClassOrigins::Run& run : origins.runs()) all.push_back({run.begin, run.was, run.count});
    return all;
  };
  using Runs = std::vector<std::vector<std::int64_t>>;
  const ClassOrigins moved({"ann", "bob", "dan"}, 3, {"dan", "ann", "bob", "cid"}, 4, "head");
  CHECK(runs(moved) == Runs{{0, 2, 1}, {1, 0, 2}});
  CHECK(moved.description() == "from 3 to 4 classes: 3 stay, 1 is new, 0 are dropped");
  // Five classes have no name.
  CHECK(runs(ClassOrigins({"ann", "bob"}, 5, {"bob", "cid", "dan"}, 6, "head")) == Runs{{0, 1, 1}, {3, 3, 2}});
  CHECK(runs(ClassOrigins({}, 3, {}, 5, "head")) == Runs{{0, 0, 3}});
  CHECK(message_of<InputError>([] {
          ClassOrigins({"ann"}, 1, {"bob", "cid"}, 2, "x: head");
        }) ==
        "x: head: none of the 2 people of the data is among the 1 person of the checkpoint: --fresh-head begins a new "
        "head");
  CHECK(message_of<InputError>([] {
          ClassOrigins({}, 1, {"bob", "cid"}, 2, "x: head");
        }) ==
        "x: head: the classes cannot be matched by name: the data have their names, but the checkpoint has none (a "
        "checkpoint that is saved now has them)");
  CHECK(message_of<InputError>([] { ClassOrigins({"ann"}, 1, {}, 2, "x: head"); }) ==
        "x: head: the classes cannot be matched by name: the checkpoint has their names, but the data have none");
}

TEST_CASE("only people may change: another margin or model is refused") {
  const Way way{{Mesh(2), 2}};
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  (void)run(way, experiment_of(way), saving(folder, 2));
  Experiment other = with_classes(experiment_of(way), 20);
  other.head.margin.scale = 30;
  CHECK(message_of<InputError>([&] { (void)run(way, other, resuming(folder, 2, 2, nullptr, SavedHead::grown)); }) ==
        fmt::format("{}: was saved by a different experiment: with a grown head, data and head.classes may change",
                    (scratch / "step-000002").string()));
}

}  // namespace heddle::test::grown_head_test
