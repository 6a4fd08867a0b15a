// Compares the results of a run with the claims about it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/program/reproduce/claims.h"

namespace heddle {

/// One row of the table: `max/mean of gathered | 1.9 +- 5 % | 1.902 | holds`.
struct Verdict {
  std::string claim;
  std::string expected;
  std::string got;  // or the reason why there is no value
  bool holds = false;
};

Verdict verdict_on(const Claim& claim, const nlohmann::ordered_json& summary);

std::string verdict_table(std::span<const Verdict> verdicts);

}  // namespace heddle
