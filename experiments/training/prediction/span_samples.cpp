#include "experiments/training/prediction/span_samples.h"

#include <algorithm>
#include <numeric>

#include "experiments/training/span_names.h"

namespace heddle {

namespace {

/// The mean time of a step's actions. The median would not do: a step is the sum of its actions, the slow ones too.
double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

SpanSamples::SpanSamples(const std::vector<Span>& spans) {
  for (const Span& span : spans) {
    const auto [entry, is_new] = spans_.try_emplace(span.name);
    Named& named = entry->second;
    if (is_new) named.order = spans_.size();
    named.begins.push_back(span.begin_seconds);
    named.seconds.push_back(span.seconds);
    named.computing += span.computing_seconds;
    named.bytes = span.bytes;
  }
}

SpanSamples SpanSamples::of_group(std::span<const SpanSamples* const> ranks) {
  SpanSamples group = *ranks.front();
  for (auto& [name, shared] : group.spans_)
    for (std::size_t i = 0; i < shared.begins.size(); ++i) {
      double& begin = shared.begins[i];
      double end = begin + shared.seconds[i];
      for (const SpanSamples* const rank : ranks.subspan(1)) {
        const Named* const named = rank->find(name);
        if (named == nullptr || i >= named->begins.size()) continue;
        begin = std::max(begin, named->begins[i]);
        end = std::max(end, named->begins[i] + named->seconds[i]);
      }
      shared.seconds[i] = end - begin;
    }
  return group;
}

const SpanSamples::Named* SpanSamples::find(const std::string& name) const {
  const auto found = spans_.find(name);
  return found == spans_.end() ? nullptr : &found->second;
}

double SpanSamples::sum_of(const std::string& name) const {
  const Named* const named = find(name);
  return named == nullptr ? 0 : std::accumulate(named->seconds.begin(), named->seconds.end(), 0.0);
}

double SpanSamples::computing_of(const std::string& name) const {
  const Named* const named = find(name);
  return named == nullptr ? 0 : named->computing;
}

double SpanSamples::mean_of(ActionKind kind, int stage, std::int64_t micro_batches, Counted counted) const {
  std::map<std::size_t, const Named*> begun;  // in the order of their begins
  for (int i = 0; i < micro_batches; ++i)
    if (const Named* const named = find(to_string(Action{kind, stage, i}))) begun.emplace(named->order, named);
  std::vector<double> all;
  for (const auto& [order, named] : begun) {
    const bool is_first = order == begun.begin()->first;
    const bool is_later = !is_first || begun.size() == 1;
    if (counted == Counted::first ? !is_first : counted == Counted::later && !is_later) continue;
    all.insert(all.end(), named->seconds.begin(), named->seconds.end());
  }
  return mean(all);
}

StageCosts SpanSamples::stage_costs(int stage, std::int64_t micro_batches, Counted counted) const {
  const auto seconds = [&](ActionKind kind) { return mean_of(kind, stage, micro_batches, counted); };
  StageCosts costs;
  costs.forward = seconds(ActionKind::forward);
  if (const Named* const load = find(span_names::load); load != nullptr && stage == 0)
    costs.forward += mean(load->seconds);
  // A B is the sum of both parts; some schedules have it for some of the micro-batches only.
  costs.backward_input = seconds(ActionKind::backward_input);
  costs.backward_weight = seconds(ActionKind::backward_weight);
  if (costs.backward_input + costs.backward_weight == 0) costs.backward_input = seconds(ActionKind::backward);
  costs.recompute = seconds(ActionKind::recompute);
  costs.offload = seconds(ActionKind::offload);
  return costs;
}

std::int64_t SpanSamples::offloaded_bytes(int stage, std::int64_t micro_batches) const {
  std::int64_t largest = 0;
  for (int i = 0; i < micro_batches; ++i)
    if (const Named* const named = find(to_string(Action{ActionKind::offload, stage, i})))
      largest = std::max(largest, named->bytes);
  return largest;
}

std::vector<Span> without_updates_in_loss(std::vector<Span> spans, int stages) {
  const std::string loss = to_string(Action{ActionKind::loss, stages - 1, 0});
  for (Span& whole : spans) {
    if (whole.name != loss) continue;
    const double end = whole.begin_seconds + whole.seconds;
    for (const Span& part : spans)
      if (part.name == span_names::head_weight && part.begin_seconds >= whole.begin_seconds && part.begin_seconds < end)
        whole.seconds -= part.seconds;
  }
  return spans;
}

}  // namespace heddle
