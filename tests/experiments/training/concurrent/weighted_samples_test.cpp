// Weights of samples and people, from files to gradients, over random layouts against the serial run.
#include <array>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/images/image_files.h"
#include "tests/support/layouts.h"

namespace heddle::test::weighted_samples_test {
namespace {

constexpr std::int64_t people = 6;
constexpr std::int64_t images = 4;  // of each

/// Photographs of noise, listed with weights from 0 to 2, and weights from 0 to 3 of four people.
void write_weighted(const WrittenImages& files) {
  RandomStream draws({7}, Purpose::test, 4, 0);
  std::string list = "file,person,weight\n";
  for (std::int64_t person = 0; person < people; ++person)
    for (std::int64_t i = 0; i < images; ++i) {
      const std::string name = fmt::format("{}_{}.pgm", person, i);
      std::string pixels;
      for (int k = 0; k < 64; ++k) pixels += static_cast<char>(draws.below(256));
      files.write(name, "P5 8 8 255\n" + pixels);
      list += fmt::format("{},p{},{}\n", name, person, 0.5 * static_cast<double>(draws.below(5)));
    }
  files.write("list.csv", list);
  files.write("people.txt", "p0 0.25\np1 3\np2 0\np3\t1.5\n");
}

ImageListConfig weighted_list(const WrittenImages& files) {
  ImageListConfig config;
  config.train = files.path("list.csv");
  config.image = {3, 8, 8};
  config.path_column = "file";
  config.label_column = "person";
  config.weight_column = "weight";
  config.class_weights = files.path("people.txt");
  return config;
}

ModelPointer small_model() {
  return std::make_shared<ModelSpec>(
      make_model({.type = ModelType::mlp, .embedding = 6, .hidden = {9}}, {.channels = 3, .height = 8, .width = 8}));
}

Experiment weighted_experiment(const WrittenImages& files, std::int64_t batch, DType dtype) {
  Experiment experiment = small_experiment(8, batch, 6, dtype);
  experiment.data.type = DataType::image_list;
  experiment.data.image_list = weighted_list(files);
  return experiment;
}

Layout random_layout(RandomStream& draws) {
  Layout layout{Mesh(1 + static_cast<int>(draws.below(3)), 1 + static_cast<int>(draws.below(2)),
                     1 + static_cast<int>(draws.below(2))),
                1 + static_cast<std::int64_t>(draws.below(3)), static_cast<Logits>(draws.below(4))};
  layout.over = random_axes(draws);
  return layout;
}

}  // namespace

TEST_CASE("weighted samples train over random layouts as in the serial run") {
  const WrittenImages files;
  write_weighted(files);
  const ModelPointer model = small_model();
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomStream draws({seed}, Purpose::test, 5, 0);
    const Layout layout = random_layout(draws);
    Experiment experiment = weighted_experiment(files, 5 + static_cast<std::int64_t>(draws.below(12)),
                                                draws.below(2) == 0 ? DType::f64 : DType::f32);
    if (draws.below(2) == 0) experiment.train.clip.norm = 0.5;
    if (draws.below(3) == 0) experiment.head.loss_reduction = LossReduction::reduce_scatter;
    CAPTURE(seed);
    CAPTURE(to_string(layout.mesh));
    CAPTURE(to_string(layout.over));
    check_against_reference(experiment, model, layout);
  }
}

TEST_CASE("weighted samples of one of two data sets train on any mesh as in the serial run") {
  const WrittenImages files;
  write_weighted(files);
  const ModelPointer model = small_model();
  Experiment experiment = weighted_experiment(files, 12, DType::f64);
  experiment.data.name = "weighted";
  experiment.data.share = 2;
  DataConfig& plain = experiment.further_data.emplace_back(small_experiment(5, 12, 6, DType::f64).data);
  plain.name = "plain";
  HeadConfig& head = experiment.further_heads.emplace_back(experiment.head);
  head.classes = 5;
  head.logits = Logits::fused;
  head.loss_weight = 0.25;
  for (const Layout& layout : {Layout{Mesh(2), 2}, Layout{Mesh(3), 1}, Layout{Mesh(2, 1, 2), 3}, Layout{Mesh(1, 2), 2},
                               Layout{.mesh = Mesh(2, 1, 2), .micro_batches = 1, .over = {Axis::tp}}}) {
    CAPTURE(to_string(layout.mesh));
    check_against_reference(experiment, model, layout);
  }
  const Outcome weighted = train(experiment, model, {}, 1);
  experiment.data.image_list.weight_column.clear();
  experiment.data.image_list.class_weights.clear();
  const Outcome unweighted = train(experiment, model, {}, 1);
  CHECK(weighted.losses[0] != close_to(unweighted.losses[0]).epsilon(1e-3));
}

TEST_CASE("weighted samples train a replicated head, and one with a stash, as in the serial run") {
  const WrittenImages files;
  write_weighted(files);
  const ModelPointer model = small_model();
  for (const Layout& layout : {Layout{Mesh(3), 2, Logits::fused}, Layout{Mesh(2, 1, 2), 1, Logits::fused}}) {
    const Experiment experiment = weighted_experiment(files, 11, DType::f64);
    const Outcome reference = train(experiment, model, reference_of(layout), 3);
    Experiment replicated = experiment;
    replicated.head.parallel = HeadParallel::replicated;
    Experiment stashed = experiment;
    stashed.head.stash = true;
    for (const Experiment& changed : {replicated, stashed}) {
      const Outcome outcome = train(changed, model, layout, 3);
      for (std::size_t i = 0; i < reference.losses.size(); ++i)
        CHECK(outcome.losses[i] == close_to(reference.losses[i]).epsilon(1e-12));
      CHECK(max_difference(outcome.weights, reference.weights).error <= 1e-12);
    }
  }
}

TEST_CASE("the loss of a step is the weighted sum of its images' losses over the batch") {
  const WrittenImages files;
  write_weighted(files);
  const ModelPointer model = small_model();
  Experiment experiment = weighted_experiment(files, people * images, DType::f64);  // a batch of all images
  const Outcome weighted = train(experiment, model, Layout{}, 1);
  // The same images, each weighted by 0 but for one person's, whose weights are those of the list.
  double sum = 0;
  for (std::int64_t person = 0; person < people; ++person) {
    std::string weights;
    for (std::int64_t other = 0; other < people; ++other)
      weights += fmt::format("p{} {}\n", other, other == person ? 1 : 0);
    files.write("one.txt", weights);
    experiment.data.image_list.class_weights = files.path("one.txt");
    const double own = train(experiment, model, Layout{}, 1).losses[0];
    const double class_weight = std::array{0.25, 3.0, 0.0, 1.5, 1.0, 1.0}[static_cast<std::size_t>(person)];
    sum += class_weight * own;
  }
  CHECK(weighted.losses[0] == close_to(sum).epsilon(1e-12));
  CHECK(weighted.losses[0] > 0);
}

TEST_CASE("plan counts what random layouts with weights hold and send, and weights send nothing" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const WrittenImages files;
  write_weighted(files);
  const ModelPointer model = small_model();
  for (std::uint64_t seed = 100; seed < 115; ++seed) {
    RandomStream draws({seed}, Purpose::test, 5, 0);
    const Layout layout = random_layout(draws);
    Experiment experiment = weighted_experiment(files, 13, DType::f32);
    CAPTURE(seed);
    const std::vector<Use> weighted = use_of_step(experiment, model, layout);
    CHECK(use_of_step(experiment, model, layout, "plan") == weighted);
    experiment.data.image_list.weight_column.clear();
    experiment.data.image_list.class_weights.clear();
    const std::vector<Use> without = use_of_step(experiment, model, layout);
    for (std::size_t rank = 0; rank < without.size(); ++rank) CHECK(without[rank].sent == weighted[rank].sent);
  }
}

}  // namespace heddle::test::weighted_samples_test
