#include "tests/support/head/head_training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include <doctest/doctest.h>

#include "tests/support/head/head_samples.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

void put_values(const Values& values, std::int64_t first, Values& all) {
  std::copy(values.begin(), values.end(), all.begin() + first);
}

/// Checks that values which other ranks have set before have the same bits; NaN marks those that none has set.
void put_alike(const Values& values, std::int64_t first, Values& all) {
  bool is_alike = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& value = all[static_cast<std::size_t>(first) + i];
    is_alike = is_alike && (std::isnan(value) || value == values[i]);
    value = values[i];
  }
  CHECK(is_alike);
}

}  // namespace

Learned train(const Training& t, const Mesh& mesh) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const auto ranks = static_cast<std::size_t>(mesh.size());
  Learned result;
  std::mutex mutex;
  const std::int64_t d = t.dimension;
  result.embedding_gradients.resize(static_cast<std::size_t>(t.steps * t.batch * d));
  result.losses.resize(static_cast<std::size_t>(t.steps), unknown);
  result.weights.resize(static_cast<std::size_t>(t.config.classes * t.config.sub_centres * d), unknown);
  result.momentum.resize(result.weights.size(), unknown);
  result.square.resize(result.weights.size(), unknown);
  result.biases.resize(static_cast<std::size_t>(t.config.classes), unknown);
  result.sent.resize(ranks);
  result.peaks.resize(ranks);
  run_ranks(test::ranks(mesh, t.backend), [&](Rank& rank) {
    const bool leads = rank.index == 0;
    Construction construction{rank.device, rank.key, t.dtype};
    Head head(t.config, t.optimizer, d, rank, construction);
    for (std::int64_t step = 0; step < t.steps; ++step) {
      const std::vector<std::int64_t> labels = t.labels(step);
      const Values embeddings = t.embeddings(step);
      head.begin_step(step, labels);
      double loss = 0;
      bool has_loss = false;
      for (std::int64_t i = 0; i < t.micro_batches; ++i) {
        HeadInput input;
        const IndexRange mine = samples_of(mesh, rank.index, t.batch, t.micro_batches, i);
        input.samples = shared_samples(t.config, mesh, rank.index, t.batch, t.micro_batches, i);
        input.embedding = tensor(rank.device, {mine.size, d}, part(embeddings, d, mine), t.dtype);
        input.labels =
            std::span(labels).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size));
        input.global_batch = t.batch;
        input.weights = weights_of(input.samples, t.weights(step));
        const HeadOutput output = head.forward_backward(input);
        if (!rank.device.has_data()) continue;
        put_values(output.embedding_gradient.to_doubles(), (step * t.batch + mine.begin) * d,
                   result.embedding_gradients);
        has_loss = output.loss_sum.defined();
        if (has_loss) loss += output.loss_sum.item();
      }
      Tensor square = Tensor::zeros(rank.device, {1}, DType::f64);
      head.add_squared_gradient(0, square);
      square = rank.world.all_reduce(square);
      const double norm = rank.device.has_data() ? std::sqrt(square.item()) : 1;
      head.update({.step = step,
                   .learning_rate = t.optimizer.learning_rate,
                   .factor = t.clip_norm > 0 && norm > t.clip_norm ? t.clip_norm / norm : 1});
      const std::lock_guard lock(mutex);
      put_alike({loss}, step, result.losses);
      if (!leads) continue;
      result.has_loss.push_back(has_loss);
      result.norms.push_back(norm);
    }
    result.sent[static_cast<std::size_t>(rank.index)] = rank.bytes.sent_bytes();
    result.peaks[static_cast<std::size_t>(rank.index)] = rank.device.meter().peak();
    if (!rank.device.has_data()) return;
    const std::int64_t rows = head.classes().size * t.config.sub_centres;
    const std::int64_t first = head.classes().begin * t.config.sub_centres * d;
    Tensor widened = Tensor::empty(rank.device, {rows, d}, t.dtype);
    Tensor none;
    rank.device.backend().class_rows().load(head.table(), {0, rows, {}}, 0, widened, none);
    const std::lock_guard lock(mutex);
    put_alike(widened.to_doubles(), first, result.weights);
    if (head.table().momentum.defined()) put_alike(head.table().momentum.to_doubles(), first, result.momentum);
    if (head.table().square.defined()) put_alike(head.table().square.to_doubles(), first, result.square);
    for (const StateTensor& state : head.state())
      if (state.name == "head.bias") put_alike(state.value.to_doubles(), head.classes().begin, result.biases);
  });
  for (Values* values : {&result.weights, &result.momentum, &result.square, &result.biases})
    std::replace_if(
        values->begin(), values->end(), [](double x) { return std::isnan(x); }, 0.0);
  return result;
}

void check_planned(Training t, const Mesh& mesh) {
  t.backend = tested_backend();
  const Learned ran = train(t, mesh);
  t.backend = "plan";
  const Learned planned = train(t, mesh);
  CHECK(planned.sent == ran.sent);
  REQUIRE(planned.peaks.size() == ran.peaks.size());
  for (std::size_t rank = 0; rank < ran.peaks.size(); ++rank) CHECK(planned.peaks[rank].bytes == ran.peaks[rank].bytes);
}

void check_alike(const Learned& a, const Learned& b, double tolerance) {
  CHECK(difference(a.losses, b.losses) < tolerance);
  CHECK(difference(a.norms, b.norms) < tolerance);
  CHECK(difference(a.embedding_gradients, b.embedding_gradients) < tolerance);
  CHECK(difference(a.weights, b.weights) < tolerance);
  CHECK(difference(a.momentum, b.momentum) < tolerance);
  CHECK(difference(a.square, b.square) < tolerance);
  CHECK(difference(a.biases, b.biases) < tolerance);
}

bool fits(const HeadConfig& config, const Way& way) {
  return !way.stash || config.sub_centres == 1;
}

void check_every_way(Training t, std::initializer_list<int> ranks) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    t.dtype = dtype;
    t.config.logits = Logits::sharded;
    t.config.stash = false;
    const Learned reference = train(t, 1);
    for (const Way& way : every_way)
      for (const int count : ranks) {
        if (!fits(t.config, way)) continue;
        CAPTURE(static_cast<int>(way.logits));
        CAPTURE(way.stash);
        CAPTURE(count);
        t.config.logits = way.logits;
        t.config.stash = way.stash;
        check_alike(train(t, count), reference, dtype == DType::f64 ? 1e-12 : 2e-5);
      }
  }
}

Training some_training(std::int64_t classes) {
  Training t;
  t.config.classes = classes;
  t.config.margin = {.scale = 16, .combined = {.m1 = 1, .m2 = 0.4, .m3 = 0.1}};
  return t;
}

}  // namespace heddle::test
