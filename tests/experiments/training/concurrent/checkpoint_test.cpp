// Resumed runs have the same bits on the ranks that saved; on other ranks, everything that was saved is loaded with the
// same bits.
#include "experiments/training/checkpoints/checkpoint.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include <doctest/doctest.h>

#include "tests/experiments/training/concurrent/checkpoint_ways.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::checkpoint_test {

using namespace checkpoint_ways;

TEST_CASE(
    "every layout loads the checkpoints of every other: the same bits of weights, statistics and optimizer state" *
    doctest::test_suite(test::long_under_sanitizers)) {
  for (const OptimizerType optimizer : {OptimizerType::sgd, OptimizerType::adamw})
    for (const Way& saver : ways()) {
      const Scratch scratch;
      const CheckpointFolder folder(scratch / "");
      const test::Outcome saved = run(saver, experiment_of(saver, optimizer), saving(folder, 2));
      const std::size_t kinds = optimizer == OptimizerType::sgd ? 2 : 3;
      CHECK(saved.state.size() == kinds * 10 + 4);
      for (const Way& loader : ways()) {
        CAPTURE(to_string(saver.layout.mesh));
        CAPTURE(to_string(loader.layout.mesh));
        const test::Outcome loaded = run(loader, experiment_of(loader, optimizer), resuming(folder, 2, 2));
        CHECK(loaded.state == saved.state);
      }
    }
}

TEST_CASE("classes kept in 16 and 8 bits, and their scales, resume on any number of ranks with the same bits" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const WeightState weights : {WeightState::bf16, WeightState::f16, WeightState::int8})
    for (const int saving_ranks : {1, 2, 3, 4}) {
      const auto experiment = [&](const Way& way) {
        Experiment kept = experiment_of(way);
        kept.head.weights = weights;
        kept.head.momentum = weights == WeightState::f16 ? MomentumState::f16 : MomentumState::bf16;
        return kept;
      };
      const auto way = [](int ranks) {
        return Way{{Mesh(ranks), 12 / ranks, ranks % 2 == 0 ? Logits::gathered : Logits::sharded}};
      };
      const Scratch scratch;
      const CheckpointFolder folder(scratch / "");
      const test::Outcome saved = run(way(saving_ranks), experiment(way(saving_ranks)), saving(folder, 2));
      CHECK(saved.state.contains("head.weight.scale") == (weights == WeightState::int8));
      for (const int ranks : {1, 2, 3, 4}) {
        CAPTURE(saving_ranks);
        CAPTURE(ranks);
        CHECK(run(way(ranks), experiment(way(ranks)), resuming(folder, 2, 2)).state == saved.state);
      }
      const test::Outcome whole = run(way(saving_ranks), experiment(way(saving_ranks)), {.end = 4});
      const test::Outcome rest = run(way(saving_ranks), experiment(way(saving_ranks)), resuming(folder, 2, 4));
      CHECK(rest.state == whole.state);
    }
}

/// Sets the last element of a tensor on rank 1.
void spoil(Trainer& trainer, const std::string& name, double value) {
  for (const StateTensor& state : trainer.state())
    if (state.name == name && trainer.rank().index == 1) {
      Tensor last = state.value.reshape({-1});
      last = last.rows(last.numel() - 1, last.numel());
      last.copy_from(Tensor::full(trainer.rank().device, {1}, last.dtype(), value));
    }
}

TEST_CASE("a checkpoint with an element that is not finite is not kept, whoever writes it and when") {
  const Way way{{Mesh(3), 4}};
  for (const bool is_in_background : {true, false})
    for (const char* const name : {"head.weight", "velocity.head.weight"}) {
      const Scratch scratch;
      const auto saving_spoilt = [&](Trainer& trainer) {
        spoil(trainer, name, std::numeric_limits<double>::infinity());
        CheckpointWriter writer(trainer.rank());
        writer.start(CheckpointFolder(scratch / "").part(trainer, 2),
                     is_in_background ? std::optional(Pace::Seconds(1)) : std::nullopt);
        const std::optional<CheckpointWriter::Written> written = writer.finish();
        if (written && written->failure) raise(*written->failure);
      };
      CHECK_THROWS_WITH_AS(run(way, experiment_of(way), Course{.end = 2, .after = saving_spoilt}),
                           fmt::format("step 1: {} is not finite on rank 1: the training has diverged", name).c_str(),
                           RankFailed);
      CHECK(std::filesystem::is_empty(scratch / ""));
    }
}

TEST_CASE("that the state is not finite counts more than that the disk does not take it, on whichever rank") {
  const Way way{{Mesh(3), 4}};
  const Scratch scratch;
  std::ofstream(scratch / "file") << "x";
  const auto saving = [&](bool is_spoilt) {
    return Course{.end = 2, .after = [&, is_spoilt](Trainer& trainer) {
                    if (is_spoilt) spoil(trainer, "head.weight", std::numeric_limits<double>::quiet_NaN());
                    CheckpointFolder(scratch / "file").save(trainer, 2);
                  }};
  };
  CHECK_THROWS_WITH_AS(run(way, experiment_of(way), saving(true)),
                       "step 1: head.weight is not finite on rank 1: the training has diverged", RankFailed);
  CHECK_THROWS_WITH_AS(run(way, experiment_of(way), saving(false)),
                       ((scratch / "file/step-000002").string() + ": cannot be written: Not a directory").c_str(),
                       InputError);
}

TEST_CASE("state that is not finite on a rank is named, whatever its type") {
  const Way way{{Mesh(3), 4}};
  const auto spoiling = [](const std::string& name, double value) {
    return Course{.end = 2, .after = [=](Trainer& trainer) {
                    trainer.check_finite(0);
                    spoil(trainer, name, value);
                    trainer.check_finite(1);
                  }};
  };
  const auto is_named = [&](WeightState weights, const std::string& name, double value) {
    Experiment experiment = experiment_of(way);
    experiment.head.weights = weights;
    CHECK_THROWS_WITH_AS(run(way, experiment, spoiling(name, value)),
                         fmt::format("step 1: {} is not finite on rank 1: the training has diverged", name).c_str(),
                         RankFailed);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  is_named(WeightState::f32, "head.weight", infinity);
  is_named(WeightState::f32, "conv2.weight", -infinity);
  is_named(WeightState::f32, "bn1.running_var", std::numeric_limits<double>::quiet_NaN());
  is_named(WeightState::bf16, "head.weight", infinity);
  is_named(WeightState::int8, "head.weight.scale", infinity);
}

TEST_CASE("running statistics of margins, biases and sub-centres resume on any layout with the same bits" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const std::vector<std::pair<std::string, std::function<void(HeadConfig&)>>> heads{
      {"head.margin", [](HeadConfig& head) { head.margin = {.type = MarginType::adaface, .scale = 8}; }},
      {"head.margin",
       [](HeadConfig& head) {
         head.margin = {.type = MarginType::curricularface, .scale = 8};
         head.sub_centres = 3;
       }},
      {"velocity.head.bias",
       [](HeadConfig& head) {
         head.margin = {.scale = 1};
         head.normalize = false;
         head.bias = true;
       }},
  };
  const std::vector<Way> all = ways();
  for (const auto& [name, change] : heads)
    for (const Way& saver : {all[0], all[1], all[6], all[7], all[8]}) {
      const Scratch scratch;
      const CheckpointFolder folder(scratch / "");
      Experiment experiment = experiment_of(saver);
      change(experiment.head);
      const test::Outcome saved = run(saver, experiment, saving(folder, 2));
      CHECK(saved.state.contains(name));
      const test::Outcome whole = run(saver, experiment, {.end = 4});
      CHECK(run(saver, experiment, resuming(folder, 2, 4)).state == whole.state);
      for (const Way& loader : all) {
        CAPTURE(name);
        CAPTURE(to_string(saver.layout.mesh));
        CAPTURE(to_string(loader.layout.mesh));
        Experiment other = experiment_of(loader);
        change(other.head);
        CHECK(run(loader, other, resuming(folder, 2, 2)).state == saved.state);
      }
    }
}

TEST_CASE("a run that resumes on different ranks with the same sample groups equals an uninterrupted run" *
          doctest::test_suite(test::long_under_sanitizers)) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const Way& saver : ways()) {
      if (saver.layout.mesh.size(Axis::dp) == 3) continue;  // three groups
      const Scratch scratch;
      const CheckpointFolder folder(scratch / "");
      const Experiment experiment = experiment_of(saver, OptimizerType::sgd, dtype);
      const test::Outcome whole = run(saver, experiment, {.end = 4});
      (void)run(saver, experiment, saving(folder, 2));
      for (const Way& loader : ways()) {
        if (loader.layout.mesh.size(Axis::dp) == 3) continue;
        CAPTURE(to_string(saver.layout.mesh));
        CAPTURE(to_string(loader.layout.mesh));
        const test::Outcome rest =
            run(loader, experiment_of(loader, OptimizerType::sgd, dtype), resuming(folder, 2, 4));
        const double tolerance = dtype == DType::f64 ? 1e-12 : 2e-5;
        for (std::size_t i = 0; i < 2; ++i) CHECK(rest.losses[i] == close_to(whole.losses[i + 2]).epsilon(tolerance));
        CHECK(test::max_difference(rest.weights, whole.weights).error <= tolerance);
      }
    }
}

TEST_CASE("a run that resumes on the same ranks has the bits of an uninterrupted run, without a note") {
  for (const Way& way : several_ways()) {
    const Scratch scratch;
    const CheckpointFolder folder(scratch / "");
    const Experiment experiment = experiment_of(way);
    const test::Outcome whole = run(way, experiment, {.end = 4});
    (void)run(way, experiment, saving(folder, 2));
    std::string note;
    const test::Outcome rest = run(way, experiment, resuming(folder, 2, 4, &note));
    CHECK(rest.losses == std::vector<double>(whole.losses.begin() + 2, whole.losses.end()));
    CHECK(rest.state == whole.state);
    CHECK(note.empty());
  }
}

TEST_CASE("a run that resumes on a different layout prints a note with the differences") {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  const Way two{{Mesh(2), 2}};
  (void)run(two, experiment_of(two), saving(folder, 1));
  const auto note = [&](const Way& way) {
    std::string text;
    (void)run(way, experiment_of(way), resuming(folder, 1, 1, &text));
    return text;
  };
  CHECK(note({{Mesh(), 4}}) ==
        "resumes on a different layout (saved on dp 2 with micro_batches = 2, now 1 rank with 4): the losses agree "
        "within rounding");
  CHECK(
      note({{Mesh(3), 2}}) ==
      "resumes on a different layout (saved on dp 2 with micro_batches = 2, now dp 3 with 2): the losses agree within "
      "rounding; batch norms normalised a batch in 4 groups, now in 6");
  CHECK(note({{Mesh(2), 2}, {}, ShardedState::none, HeadParallel::replicated}) ==
        "resumes on a different layout: the losses agree within rounding");
  CHECK(note({{Mesh(2), 2, Logits::gathered}}) == "resumes on a different layout: the losses agree within rounding");
  Experiment direct = experiment_of(two);
  direct.winograd = WinogradUse::off;
  std::string text;
  (void)run(two, direct, resuming(folder, 1, 1, &text));
  CHECK(text == "resumes on a different layout: the losses agree within rounding");
}

TEST_CASE(
    "a class sample resumes with the saved number of shards, on any ranks, and a note says so, as it does for a "
    "different "
    "number") {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  const auto sampling = [](const Way& way, std::int64_t shards) {
    Experiment experiment = experiment_of(way, OptimizerType::sgd, DType::f64);
    experiment.head.sample.rate = 0.4;
    experiment.head.sample.shards = shards;
    return experiment;
  };
  const Way two{{Mesh(2), 2}};
  const Way four{{Mesh(4), 1}};
  const test::Outcome whole = run(two, sampling(two, 0), {.end = 4});
  (void)run(two, sampling(two, 0), saving(folder, 2));
  std::string note;
  (void)run(four, sampling(four, 3), resuming(folder, 2, 2, &note));
  CHECK(note.ends_with("rounding; classes were sampled in 2 shards, now in 3 (head.sample.shards)"));
  test::Outcome rest = run(four, sampling(four, 2), resuming(folder, 2, 4, &note));
  CHECK(note.ends_with("rounding"));
  CHECK(test::max_difference(rest.weights, whole.weights).error <= 1e-12);
  rest = run(four, sampling(four, 0), resuming(folder, 2, 4, &note));
  CHECK(note.ends_with("rounding; classes are sampled in 2 shards as before (head.sample.shards)"));
  CHECK(test::max_difference(rest.weights, whole.weights).error <= 1e-12);
  // A checkpoint of such a run keeps the number, also if the ranks do not change.
  Course once_more = resuming(folder, 2, 3);
  once_more.after = [&folder](Trainer& trainer) { folder.save(trainer, 3); };
  (void)run(four, sampling(four, 0), once_more);
  rest = run(four, sampling(four, 0), resuming(folder, 3, 4, &note));
  CHECK(note == "classes are sampled in 2 shards as before (head.sample.shards)");
  CHECK(test::max_difference(rest.weights, whole.weights).error <= 1e-12);
  // A new head has its own number of shards, and needs steps to be trained in.
  Experiment longer = sampling(four, 0);
  longer.train.steps = 4;
  (void)run(four, longer, resuming(folder, 3, 3, &note, SavedHead::fresh));
  CHECK(note.empty());
  CHECK(message_of<InputError>(
            [&] { (void)run(four, sampling(four, 0), resuming(folder, 3, 3, &note, SavedHead::fresh)); })
            .ends_with("step-000003: all 3 steps are done, so that the changed head would not be trained: raise "
                       "train.steps"));
}

TEST_CASE("lazy classes are saved with the values of dense ones, and resume on any number of ranks") {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  const auto sampling = [](const Way& way, Unsampled unsampled) {
    Experiment experiment = experiment_of(way, OptimizerType::sgd, DType::f64);
    experiment.head.sample = {.rate = 0.4, .unsampled = unsampled};
    experiment.train.optimizer.weight_decay = 0.1;
    return experiment;
  };
  const Way two{{Mesh(2), 2}};
  const test::Outcome dense = run(two, sampling(two, Unsampled::dense), {.end = 4});
  const test::Outcome saved = run(two, sampling(two, Unsampled::lazy), saving(folder, 2));
  for (const Way& way : {two, Way{{Mesh(), 4}}, Way{{Mesh(4), 1, Logits::fused}}}) {
    CAPTURE(to_string(way.layout.mesh));
    CHECK(run(way, sampling(way, Unsampled::lazy), resuming(folder, 2, 2)).state == saved.state);
    const test::Outcome rest = run(way, sampling(way, Unsampled::lazy), resuming(folder, 2, 4));
    CHECK(test::max_difference(rest.weights, dense.weights).error <= 1e-12);
    CHECK(test::max_difference(rest.state, dense.state).error <= 1e-12);
  }
}

TEST_CASE("a checkpoint of different classes, embeddings, types, batches or options is refused, with the reason") {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "");
  const Way way{{Mesh(2), 2}};
  (void)run(way, experiment_of(way), saving(folder, 1));
  const std::string step = (scratch / "").string() + "step-000001";
  const auto complaint = [&](const auto& change, SavedHead head = SavedHead::kept) {
    Experiment experiment = experiment_of(way);
    change(experiment);
    const std::string message =
        message_of<InputError>([&] { (void)run(way, experiment, resuming(folder, 1, 1, nullptr, head)); });
    return message.starts_with(step) ? message.substr(step.size()) : message;
  };
  const std::string different = ": was saved by a different experiment ";
  const std::string may_change =
      ": only the number of steps, what is saved, the evaluation and the layout over ranks may change";
  CHECK(complaint([](Experiment& e) { e.head.classes = 12; }) ==
        different + "(head.classes was 11, is 12)" + may_change + "; --grow-head adds and removes people");
  CHECK(complaint([](Experiment& e) { e.head.margin.scale = 7; }).ends_with("; --fresh-head begins a new head"));
  CHECK(complaint([](Experiment& e) {
          e.train.dtype = DType::f64;
        }).starts_with("/rank-0.safetensors: conv1.weight is f32[7,3,3,3], but this run needs f64["));
  CHECK(complaint([](Experiment& e) { e.train.optimizer.type = OptimizerType::adamw; }) ==
        different + "(train.optimizer.type was \"sgd\", is \"adamw\")" + may_change);
  CHECK(complaint([](Experiment& e) { e.train.batch = 25; }) ==
        ": was saved with batch = 24, this run has 25: a resumed run must keep it");
  CHECK(complaint([](Experiment& e) { e.seed = 2; }) ==
        ": was saved with seed = 1, this run has 2: a resumed run must keep it");
  CHECK(complaint([](Experiment& e) { e.train.optimizer.learning_rate = 0.5; }) ==
        ": was saved by a different experiment (train.optimizer.lr was 0.02, is 0.5): only the number of "
        "steps, what is saved, the evaluation and the layout over ranks may change");
  CHECK(
      complaint([](Experiment& e) { e.train.optimizer.learning_rate = 0.5; }, SavedHead::fresh) ==
      ": was saved by a different experiment (train.optimizer.lr was 0.02, is 0.5): with a new head, head and data may "
      "change, too");
  CHECK(complaint([](Experiment& e) { e.head.margin.scale = 5; }, SavedHead::fresh) == "no error");
}

}  // namespace heddle::test::checkpoint_test
