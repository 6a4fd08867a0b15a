#include "experiments/layout_search/known_layouts.h"

#include <algorithm>
#include <cmath>

#include "framework/error.h"

namespace heddle {

namespace {

/// A layout whose corrected estimate exceeds its budget by at most this factor may fit, which a plan of it shows.
constexpr double max_memory_error = 1.03;

/// An estimate counts in max_error_ only if the plan that corrected it differs in at most so many options.
constexpr int max_distance = 2;

}  // namespace

KnownLayouts::Entry& KnownLayouts::entry_of(const Layout& layout) {
  const auto [found, is_new] = entries_.try_emplace(to_string(layout));
  Entry& entry = found->second;
  if (!is_new) return entry;
  entry.layout = layout;
  entry.values = values_of(layout);
  entry.distance_from_written = distance(entry.values, written_);
  for (const Entry* const plan : correcting_) compare_with(entry, *plan);
  return entry;
}

void KnownLayouts::compare_with(Entry& entry, const Entry& plan) {
  const int different = distance(entry.values, plan.values);
  if (entry.nearest != nullptr && different > entry.distance) return;
  entry.nearest = &plan;
  entry.distance = different;
}

bool KnownLayouts::try_to_evaluate(Entry& entry, std::optional<LayoutFigures>& figures, const Evaluate& evaluate) {
  try {
    figures = evaluate();
  } catch (const InputError& error) {
    refuse(entry.layout, error.what());
  }
  return figures.has_value();
}

KnownLayouts::MaybeCandidate KnownLayouts::estimated(const Layout& layout, const Evaluate& evaluate) {
  Entry& entry = entry_of(layout);
  if (!entry.estimate && !entry.is_refused && try_to_evaluate(entry, entry.estimate, evaluate)) {
    ++estimates_;
    if (entry.plan) correct_others(entry);
  }
  return candidate_of(entry, {}, max_memory_error);
}

KnownLayouts::MaybeCandidate KnownLayouts::planned(const Layout& layout, const Evaluate& evaluate) {
  Entry& entry = entry_of(layout);
  if (!entry.plan && !entry.is_refused && try_to_evaluate(entry, entry.plan, evaluate)) {
    ++plans_;
    if (entry.estimate) {
      record_error(entry);
      correct_others(entry);
    }
  }
  return candidate_of(entry, {}, max_memory_error);
}

void KnownLayouts::refuse(const Layout& layout, const std::string& why) {
  entry_of(layout).is_refused = true;
  refusals_[value_of(layout, LayoutOption::mesh)] = why;
}

KnownLayouts::Ratio KnownLayouts::error_of(const Entry& entry) {
  const auto bytes = static_cast<double>(std::max<std::int64_t>(entry.estimate->bytes, 1));
  return {entry.plan->seconds / entry.estimate->seconds, static_cast<double>(entry.plan->bytes) / bytes};
}

void KnownLayouts::record_error(const Entry& entry) {
  if (entry.nearest == nullptr || entry.distance > max_distance) return;
  const Ratio error = error_of(entry);
  const Ratio corrected = error_of(*entry.nearest);
  max_error_.seconds = std::max(max_error_.seconds, error.seconds / corrected.seconds);
  max_error_.bytes = std::max(max_error_.bytes, error.bytes / corrected.bytes);
}

void KnownLayouts::correct_others(const Entry& plan) {
  correcting_.push_back(&plan);
  for (auto& [name, entry] : entries_) compare_with(entry, plan);
}

LayoutFigures KnownLayouts::scaled(LayoutFigures figures, const Ratio& ratio) {
  figures.seconds *= ratio.seconds;
  figures.bytes = std::llround(ratio.bytes * static_cast<double>(figures.bytes));
  figures.fullness *= ratio.bytes;
  return figures;
}

KnownLayouts::MaybeCandidate KnownLayouts::candidate_of(const Entry& entry, const Ratio& margin,
                                                        double max_fullness) const {
  if (entry.is_refused) return {};
  if (entry.plan)
    return {{entry.layout, *entry.plan, !has_budget_ || entry.plan->fullness <= 1, entry.distance_from_written}};
  if (!entry.estimate) return {};
  LayoutFigures figures = *entry.estimate;
  if (entry.nearest != nullptr) figures = scaled(figures, error_of(*entry.nearest));
  figures = scaled(figures, margin);
  return {{entry.layout, figures, !has_budget_ || figures.fullness <= max_fullness, entry.distance_from_written}};
}

std::vector<LayoutCandidate> KnownLayouts::all_with(const Ratio& margin, double max_fullness) const {
  std::vector<LayoutCandidate> all;
  for (const auto& [name, entry] : entries_)
    if (const MaybeCandidate known = candidate_of(entry, margin, max_fullness)) all.push_back(*known);
  return all;
}

std::vector<LayoutCandidate> KnownLayouts::all() const {
  return all_with({}, max_memory_error);
}

std::vector<LayoutCandidate> KnownLayouts::all_with_margins() const {
  return all_with(max_error_, 1);
}

std::vector<LayoutCandidate> KnownLayouts::plans() const {
  std::vector<LayoutCandidate> plans = all();
  std::erase_if(plans, [](const LayoutCandidate& each) { return !each.is_planned(); });
  return plans;
}

}  // namespace heddle
