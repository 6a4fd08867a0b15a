#include "experiments/program/reproduce/verdict.h"

#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "experiments/program/reproduce/expression.h"
#include "experiments/results/grid.h"
#include "framework/error.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// Smaller tolerances are for rounding only.
constexpr double min_shown = 1e-6;

/// Counts and bytes in full, all else with six significant digits.
std::string text_of(const OrderedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  const double number = value.get<double>();
  constexpr double max_exact = 1e15;
  if (std::trunc(number) == number && std::abs(number) < max_exact) return fmt::format("{:.0f}", number);
  return fmt::format("{:.6g}", number);
}

bool holds_for(const Claim& claim, const OrderedJson& value, const OrderedJson& bound) {
  if (value.is_string() || bound.is_string()) return !claim.equals.empty() && value == bound;
  const double got = value.get<double>();
  const double expected = bound.get<double>();
  if (!std::isfinite(got) || !std::isfinite(expected)) return false;
  const double slack = claim.tolerance * std::abs(expected);
  if (!claim.at_least.empty()) return got >= expected - slack;
  if (!claim.at_most.empty()) return got <= expected + slack;
  return std::abs(got - expected) <= slack;
}

}  // namespace

Verdict verdict_on(const Claim& claim, const OrderedJson& summary) {
  Verdict verdict{.claim = claim.claim, .expected = {}, .got = {}};
  const std::string& bound = !claim.equals.empty()     ? claim.equals
                             : !claim.at_least.empty() ? claim.at_least
                                                       : claim.at_most;
  const char* const sign = !claim.equals.empty() ? "" : !claim.at_least.empty() ? ">= " : "<= ";
  try {
    const OrderedJson expected = evaluate(bound, summary);
    verdict.expected = sign + text_of(expected);
    if (claim.tolerance >= min_shown) verdict.expected += fmt::format(" +- {:.3g} %", 100 * claim.tolerance);
    const OrderedJson got = evaluate(claim.value, summary);
    verdict.got = text_of(got);
    verdict.holds = holds_for(claim, got, expected);
  } catch (const InputError& error) {
    if (verdict.expected.empty()) verdict.expected = sign + bound;
    verdict.got = error.what();
  }
  return verdict;
}

std::string verdict_table(std::span<const Verdict> verdicts) {
  Grid grid({"claim", "expected", "got", "verdict"});
  grid.keep_first_whole();  // a claim is a sentence: what a cut leaves of it does not say what holds
  for (const Verdict& verdict : verdicts)
    grid.add({verdict.claim, verdict.expected, verdict.got, verdict.holds ? "holds" : "FAILS"});
  return grid.to_text();
}

}  // namespace heddle
