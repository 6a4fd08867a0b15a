#include "tests/support/head/head_problem.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

void put_rows(const Tensor& rows, std::int64_t first_row, Values& all) {
  const Values values = rows.to_doubles();
  std::copy(values.begin(), values.end(), all.begin() + first_row * rows.shape().back());
}

Tensor state_of(Head& head, const std::string& name) {
  for (const StateTensor& state : head.state())
    if (state.name == name) return state.value;
  for (const Parameter* parameter : head.parameters())
    if (parameter->name == name) return parameter->value;
  return {};
}

/// Computes the gradients of weights and biases of the head's classes by a step that subtracts them.
void step_by_gradient(Head& head, Answer& answer) {
  const Tensor weight = head.table().weight;
  const Tensor bias = state_of(head, "head.bias");
  const Values weights = weight.to_doubles();
  const Values biases = bias.to_doubles();
  head.update({.learning_rate = 1});
  const auto put_change = [&](const Tensor& after, const Values& before, Values& all) {
    Values change = after.to_doubles();
    for (std::size_t i = 0; i < change.size(); ++i) change[i] = before[i] - change[i];
    std::copy(change.begin(), change.end(), all.begin() + head.classes().begin * after.shape().back());
  };
  put_change(weight, weights, answer.weight_gradient);
  put_change(bias, biases, answer.bias_gradient);
}

IndexRange rows_of(const Head& head, const Problem& problem) {
  const std::int64_t centres = problem.config.sub_centres;
  return {head.classes().begin * centres, head.classes().size * centres};
}

void load(Head& head, const Problem& problem, Rank& rank, DType dtype) {
  const std::int64_t d = problem.dimension;
  const IndexRange rows = rows_of(head, problem);
  head.table().weight.copy_from(tensor(rank.device, {rows.size, d}, part(problem.weights, d, rows), dtype));
  if (!problem.biases.empty())
    state_of(head, "head.bias")
        .copy_from(tensor(rank.device, {head.classes().size, 1}, part(problem.biases, 1, head.classes()), dtype));
  if (!problem.running.empty())
    state_of(head, "head.margin")
        .copy_from(tensor(rank.device, {static_cast<std::int64_t>(problem.running.size())}, problem.running));
}

void forward(Head& head, const Problem& problem, Rank& rank, std::int64_t micro_batches, DType dtype, Answer& answer) {
  const std::int64_t d = problem.dimension;
  head.begin_step(0, problem.labels);
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    HeadInput input;
    input.samples = shared_samples(problem.config, rank.mesh, rank.index, problem.batch(), micro_batches, i);
    const IndexRange mine = samples_of(rank.mesh, rank.index, problem.batch(), micro_batches, i);
    input.embedding = tensor(rank.device, {mine.size, d}, part(problem.embeddings, d, mine), dtype);
    input.labels =
        std::span(problem.labels).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size));
    input.global_batch = problem.batch();
    input.weights = weights_of(input.samples, problem.sample_weights);
    const HeadOutput output = head.forward_backward(input);
    put_rows(output.embedding_gradient, mine.begin, answer.embedding_gradient);
    if (output.losses.defined()) {
      const Values losses = output.losses.to_doubles();
      std::copy(losses.begin(), losses.end(), answer.losses.begin() + mine.begin);
    }
    if (rank.index == 0) answer.loss += output.loss_sum.item();
  }
}

Answer blank_answer(const Problem& problem) {
  Answer answer;
  answer.losses.resize(problem.labels.size());
  answer.embedding_gradient.resize(problem.embeddings.size());
  answer.weight_gradient.resize(problem.weights.size());
  answer.bias_gradient.resize(problem.biases.size());
  return answer;
}

}  // namespace

Answer solve(const Problem& problem, const Mesh& mesh, std::int64_t micro_batches, DType dtype) {
  Answer answer = blank_answer(problem);
  run_ranks(ranks(mesh), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, dtype};
    Head head(problem.config, {.momentum = 0}, problem.dimension, rank, construction);
    load(head, problem, rank, dtype);
    forward(head, problem, rank, micro_batches, dtype, answer);
    const bool is_first = mesh.ranks_over(problem.config.copy_axes(), rank.index).front() == rank.index;
    Answer ignored = blank_answer(problem);
    Answer& filled = is_first ? answer : ignored;
    if (problem.config.bias && !head.is_replicated()) return step_by_gradient(head, filled);
    const ClassGradient gradient = head.gradient();
    put_rows(gradient.weight, rows_of(head, problem).begin, filled.weight_gradient);
    if (gradient.bias.defined()) put_rows(gradient.bias, head.classes().begin, filled.bias_gradient);
  });
  return answer;
}

Values running_after_step(const Problem& problem, const Mesh& mesh, std::int64_t micro_batches) {
  std::vector<Values> running(static_cast<std::size_t>(mesh.size()));
  Answer answer = blank_answer(problem);
  run_ranks(ranks(mesh), [&](Rank& rank) {
    Construction construction{rank.device, rank.key, DType::f64};
    Head head(problem.config, {.momentum = 0}, problem.dimension, rank, construction);
    load(head, problem, rank, DType::f64);
    forward(head, problem, rank, micro_batches, DType::f64, answer);
    if (head.is_replicated()) {
      head.store_gradient();
      head.end_margin_step();
    } else {
      head.update({.learning_rate = 1});
    }
    running[static_cast<std::size_t>(rank.index)] = state_of(head, "head.margin").to_doubles();
  });
  for (const Values& of_rank : running) CHECK(of_rank == running[0]);
  return running[0];
}

Problem random_problem(std::int64_t batch, std::int64_t classes, std::int64_t dimension, std::uint64_t seed) {
  Problem problem{.config = {.classes = classes, .logits = Logits::sharded, .margin = {.scale = 8}},
                  .dimension = dimension,
                  .embeddings = test::normal_values(batch * dimension, seed),
                  .weights = test::normal_values(classes * dimension, seed + 1),
                  .labels = {}};
  RandomStream stream({seed}, Purpose::test, 1, 0);
  for (std::int64_t i = 0; i < batch; ++i)
    problem.labels.push_back(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(classes))));
  return problem;
}

Values numeric_gradient(Problem problem, Values Problem::*values, double h) {
  Values gradient;
  for (double& x : problem.*values) {
    const double at = x;
    const auto loss = [&](double shift) {
      x = at + shift;
      return solve(problem, 1).loss;
    };
    gradient.push_back((8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h));
    x = at;
  }
  return gradient;
}

}  // namespace heddle::test
