#include "experiments/program/reproduce/claims.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/ranges.h>

#include "experiments/config/document.h"
#include "experiments/config/wording.h"
#include "experiments/program/reproduce/expression.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::array<std::string_view, 3> known_commands{"run", "plan", "schedule"};

void check_expression(const Document& document, const std::string& pointer, const std::string& text) {
  try {
    check_syntax(text);
  } catch (const InputError& error) {
    fail<InputError>("{}: {}", document.where(pointer), error.what());
  }
}

void check_claim(const Document& document, const std::string& pointer, const Claim& claim) {
  const std::array<std::pair<const char*, const std::string*>, 3> bounds{
      {{"equals", &claim.equals}, {"at_least", &claim.at_least}, {"at_most", &claim.at_most}}};
  const auto given =
      std::count_if(bounds.begin(), bounds.end(), [](const auto& bound) { return !bound.second->empty(); });
  if (given != 1)
    fail<InputError>("{}: expected one of \"equals\", \"at_least\" and \"at_most\", got {}", document.where(pointer),
                     given == 0 ? "none" : fmt::format("{}", given));
  check_expression(document, pointer + "/value", claim.value);
  for (const auto& [key, text] : bounds)
    if (!text->empty()) check_expression(document, fmt::format("{}/{}", pointer, key), *text);
}

void check_command(const Document& document, const std::string& pointer, const Check& check) {
  std::string first;
  std::istringstream(check.command) >> first;
  if (std::find(known_commands.begin(), known_commands.end(), first) != known_commands.end()) return;
  const std::vector<std::string> names(known_commands.begin(), known_commands.end());
  fail<InputError>("{}: expected a command that begins with {}, got {}", document.where(pointer), one_of_words(names),
                   in_quotes(check.command));
}

}  // namespace

void describe(Describer& d, Claim& claim) {
  d.field(required("claim"), claim.claim, "the claim of the documents, in a few words");
  d.field(required("value"), claim.value,
          "an expression over the summary: variants[sharded].ranks.peak_bytes.total.max / 1e6");
  d.field("equals", claim.equals, "the expression that the value equals");
  d.field("at_least", claim.at_least, "the expression that the value is not below");
  d.field("at_most", claim.at_most, "the expression that the value is not above");
  d.field("tolerance", claim.tolerance, at_least(0),
          "the largest deviation of the value, as a share of the expected value");
  choice(d, "when", claim.when, "whether the claim holds for the full run, with --quick, or always");
}

void describe(Describer& d, Check& check) {
  d.field(required("command"), check.command, "run, plan or schedule with arguments, separated by spaces");
  d.field("quick", check.quick, any_number(), "settings that --quick adds, each as for --set");
  choice(d, "when", check.when, "whether the command belongs to the full check, to --quick, or to both");
  d.field("exit_code", check.exit_code, between(0, 5), "with which the command ends");
  list(d, required("claims"), check.claims, at_least(1), "the claims about its results");
}

void describe(Describer& d, Claims& claims) {
  d.field(required("shows"), claims.shows, "what the experiment shows, in one line");
  d.field(required("seconds"), claims.seconds, at_least(0), "how long the full check takes on two cores");
  d.field(required("quick_seconds"), claims.quick_seconds, at_least(0), "how long the check takes with --quick");
  d.field("needs_data", claims.needs_data, "the name of the data set that --data must give");
  list(d, required("checks"), claims.checks, at_least(1), "commands and the claims about their results");
}

Claims read_claims(const std::filesystem::path& file) {
  const Document document = read_document(file);
  Claims claims;
  read(document, [&claims](Describer& d) { describe(d, claims); });
  claims.name = file.stem().string();
  for (std::size_t i = 0; i < claims.checks.size(); ++i) {
    const std::string pointer = fmt::format("/checks/{}", i);
    check_command(document, pointer + "/command", claims.checks[i]);
    for (std::size_t j = 0; j < claims.checks[i].claims.size(); ++j)
      check_claim(document, fmt::format("{}/claims/{}", pointer, j), claims.checks[i].claims[j]);
  }
  return claims;
}

std::vector<Claims> read_all_claims(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;  // a folder that is not there has no files
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  if (files.empty())
    fail<InputError>("{}: expected the claims of the shipped experiments; run this in Heddle's own folder",
                     folder.string());
  std::sort(files.begin(), files.end());
  std::vector<Claims> all;
  for (const std::filesystem::path& file : files) all.push_back(read_claims(file));
  return all;
}

}  // namespace heddle
