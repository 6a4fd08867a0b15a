// The largest value of a number with which a plan stays within a budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "experiments/config/fields.h"
#include "experiments/training/measurements/result.h"

namespace heddle {

/// Reads a number of bytes: `32GB` (10^9), `32GiB` (2^30), `1.5 MiB`, `4096`. InputError if the text has none of these
/// forms, or the number is not from 1 B to 2^53 B.
std::int64_t budget_bytes(std::string_view text);

struct Largest {
  /// Whether any value fits; if none does, `value` is the smallest that the experiment accepts.
  bool fits = false;
  std::int64_t value = 0;
  VariantResult plan;
  /// The reason why the next larger value does not fit; if none fits, the bytes that the smallest needs.
  std::string why;
  /// False if several values were tried, all fit, and need the same number of bytes.
  bool memory_varies = true;
};

/// The plan of an experiment with this value of the field; InputError if the experiment does not accept it.
using PlanOf = std::function<VariantResult(std::int64_t value)>;

/// The InputError that PlanOf would throw, found without planning, which is much faster.
using CheckOf = std::function<void(std::int64_t value)>;

/// The result is exact if the bytes of the fullest rank do not shrink as the value grows, and if the experiment accepts
/// an interval of values that contains `field.value`. Few values are tried: extrapolations from the bytes of
/// two plans, in growing steps, and then bisection. If a larger value needs fewer bytes, as more ranks do, only the
/// largest value that the experiment accepts is planned in addition.
Largest max_within(std::int64_t budget, const IntegerField& field, const CheckOf& check, const PlanOf& plan_of);

/// The rank that holds the most, or the first of several such ranks.
const RankResult& fullest_rank(const VariantResult& result);

}  // namespace heddle
