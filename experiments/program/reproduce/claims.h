// The claims of the documents about a shipped experiment, as data: experiments/claims/NAME.json belongs to
// experiments/NAME.json and names the commands to run and the results that they must have. `heddle reproduce` checks
// them.
//
//   {"shows": "three ways to train the same network: equal losses, unequal memory", "seconds": 60, "quick_seconds": 6,
//    "checks": [{"command": "run experiments/quickstart.json",
//                "quick": ["train.steps=5"],
//                "claims": [{"claim": "the last losses agree", "value": "variants.loss.last.spread",
//                            "at_most": "2e-5"}]}]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/description/describe.h"
#include "framework/description/enum_table.h"

namespace heddle {

/// Which runs a check or a claim belongs to: some hold only for the whole experiment, some only for the short one.
enum class When { always, full, quick };
template <>
inline constexpr auto enum_names<When> = enum_table<When>({
    {When::always, "always"},
    {When::full, "full"},
    {When::quick, "quick"},
});

/// One sentence of the documents. Exactly one of the three bounds is given; all are expressions (expression.h).
struct Claim {
  std::string claim;
  std::string value;
  std::string equals;
  std::string at_least;
  std::string at_most;
  double tolerance = 0;  // as a share of the bound
  When when = When::always;
};

/// One command and the claims about its results.
struct Check {
  std::string command;             // run, plan or schedule with its arguments
  std::vector<std::string> quick;  // further --set with --quick
  When when = When::always;
  std::int64_t exit_code = 0;
  std::vector<Claim> claims;
};

struct Claims {
  std::string name;  // the file's, without its ending
  std::string shows;
  double seconds = 0;  // on two cores
  double quick_seconds = 0;
  std::string needs_data;  // the name of a data set that does not ship; empty: none
  std::vector<Check> checks;
};

void describe(Describer& d, Claim& claim);
void describe(Describer& d, Check& check);
void describe(Describer& d, Claims& claims);

/// InputError that points into the file if a key is unknown, a value is wrong, or an expression cannot be read.
Claims read_claims(const std::filesystem::path& file);

/// The claims of all experiments in `folder` (experiments/claims), by name; InputError if there are none.
std::vector<Claims> read_all_claims(const std::filesystem::path& folder);

}  // namespace heddle
