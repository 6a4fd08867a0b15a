#include "experiments/training/prediction/span_samples.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compare/close_to.h"

namespace heddle::test {
namespace {

std::string name_of_forward(int micro_batch) {
  return to_string(Action{ActionKind::forward, 0, micro_batch});
}

Span span(std::string name, double begin, double end) {
  return {.name = std::move(name), .begin_seconds = begin, .seconds = end - begin};
}

TEST_CASE("spans of a group of ranks begin with the last rank that begins and end with the last that ends") {
  const SpanSamples first({span(name_of_forward(0), 0, 4), span(name_of_forward(1), 4, 9), span("update", 9, 10)});
  const SpanSamples second({span(name_of_forward(0), 1, 3), span(name_of_forward(1), 5, 8), span("update", 9.5, 12)});
  const std::vector<const SpanSamples*> ranks{&first, &second};
  const SpanSamples group = SpanSamples::of_group(ranks);
  CHECK(group.sum_of(name_of_forward(0)) == close_to(3));
  CHECK(group.sum_of(name_of_forward(1)) == close_to(4));
  CHECK(group.sum_of("update") == close_to(2.5));
  CHECK(group.mean_of(ActionKind::forward, 0, 2, Counted::first) == close_to(3));
  CHECK(group.mean_of(ActionKind::forward, 0, 2, Counted::later) == close_to(4));
}

TEST_CASE("spans of the same name in a group are compared in the order of their begins") {
  const SpanSamples first({span("loss", 0, 2), span("loss", 2, 3)});
  const SpanSamples second({span("loss", 1, 2), span("loss", 2, 5)});
  const std::vector<const SpanSamples*> ranks{&second, &first};
  CHECK(SpanSamples::of_group(ranks).sum_of("loss") == close_to(1 + 3));
  const std::vector<const SpanSamples*> alone{&first};
  CHECK(SpanSamples::of_group(alone).sum_of("loss") == close_to(3));
}

}  // namespace
}  // namespace heddle::test
