// The largest value of a number with which a plan stays within a budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "experiments/config/fields.h"
#include "experiments/training/result.h"

namespace heddle {

/// Bytes as people write them: `32GB` (10^9), `32GiB` (2^30), `1.5 MiB`, `4096`. InputError if the text is none of
/// these, or not from 1 B to 2^53 B.
std::int64_t budget_bytes(std::string_view text);

struct Largest {
  /// Whether any value fits; if none does, `value` is the smallest that the experiment takes.
  bool fits = false;
  std::int64_t value = 0;
  VariantResult plan;
  /// What keeps the next larger value out; if none fits, what that one needs.
  std::string why;
};

/// The plan of an experiment with this value of the field; InputError if the experiment does not take it.
using PlanOf = std::function<VariantResult(std::int64_t value)>;

/// InputError, as PlanOf's, but without the plan: much sooner.
using CheckOf = std::function<void(std::int64_t value)>;

/// Exact where what the fullest rank holds does not shrink as the value grows, and where the values that the experiment
/// takes are all those between two bounds; `field.value` is one of them. Few values are tried: those that two plans'
/// bytes point to, in steps that grow, and halves of what is left. Where the second plan holds less for a larger value,
/// as more ranks do, the largest value that the experiment takes is the only other one that is planned.
Largest largest_within(std::int64_t budget, const IntegerField& field, const CheckOf& check, const PlanOf& plan_of);

/// The rank that holds the most; the first of several.
const RankResult& fullest_rank(const VariantResult& result);

}  // namespace heddle
