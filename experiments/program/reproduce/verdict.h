// Holds what a run gave against what is claimed about it.
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
  std::string got;  // or why there is nothing
  bool holds = false;
};

Verdict judge(const Claim& claim, const nlohmann::ordered_json& summary);

std::string verdict_table(std::span<const Verdict> verdicts);

}  // namespace heddle
