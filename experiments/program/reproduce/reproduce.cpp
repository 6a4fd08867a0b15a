#include "experiments/program/reproduce/reproduce.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/config/wording.h"
#include "experiments/program/reproduce/claims.h"
#include "experiments/program/reproduce/verdict.h"
#include "experiments/results/summary.h"
#include "experiments/results/table.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "framework/files/untrusted_json.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

bool belongs(When when, bool quick) {
  return when == When::always || (when == When::quick) == quick;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// The options that the command line adds: the settings of --quick, the folder of the data, and that of the results.
std::vector<std::string> arguments_of(const ReproduceCommand& command, const Claims& claims, const Check& check) {
  std::vector<std::string> arguments = words_of(check.command);
  const auto set = [&arguments](const std::string& what) { arguments.insert(arguments.end(), {"--set", what}); };
  if (command.quick)
    for (const std::string& setting : check.quick) set(setting);
  if (!claims.needs_data.empty()) set("data_folder=" + command.data.string());
  return arguments;
}

/// The summary of the command, or that it wrote none.
OrderedJson summary_of(const std::filesystem::path& folder, const std::string& printed, bool is_schedule) {
  const std::filesystem::path file = folder / "summary.json";
  const std::string text = is_schedule                     ? printed
                           : std::filesystem::exists(file) ? read_file(file, max_summary_bytes)
                                                           : "";
  auto summary = parse_untrusted_json<OrderedJson>(text);
  if (summary.is_discarded()) summary = OrderedJson::object();
  return summary;
}

class Reproduction {
 public:
  Reproduction(const ReproduceCommand& command, const Console& console, const CallProgram& call)
      : command_(command), console_(console), call_(call) {}

  /// Runs the checks that belong to this call, if there are any.
  void run(const Claims& claims) {
    if (!claims.needs_data.empty() && command_.data.empty()) {
      not_run_.push_back(fmt::format("{}: needs --data DIR, the folder that holds {}", claims.name, claims.needs_data));
      return;
    }
    const double begin = steady_seconds();
    std::vector<Verdict> verdicts;
    std::string commands;
    for (std::size_t i = 0; i < claims.checks.size(); ++i) {
      const Check& check = claims.checks[i];
      if (!belongs(check.when, command_.quick)) continue;
      const std::vector<std::string> arguments = arguments_of(command_, claims, check);
      if (verdicts.empty()) console_.out << fmt::format("{}: {}\n", claims.name, claims.shows);
      console_.out << fmt::format("./heddle {}\n", fmt::join(arguments, " ")) << std::flush;
      verify(check, arguments, command_.out / claims.name / std::to_string(i), verdicts);
    }
    if (verdicts.empty()) {
      not_run_.push_back(fmt::format("{}: has no check {} --quick", claims.name, command_.quick ? "with" : "without"));
      return;
    }
    ++experiments_;
    const auto holding = std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.holds; });
    held_ += static_cast<std::size_t>(holding);
    if (static_cast<std::size_t>(holding) < verdicts.size()) failed_names_.push_back(claims.name);
    failed_ += verdicts.size() - static_cast<std::size_t>(holding);
    console_.out << verdict_table(verdicts) << fmt::format("({})\n\n", format_seconds(steady_seconds() - begin))
                 << std::flush;
  }

  int finish() const {
    console_.out << fmt::format("{} experiment{}: {} claims hold, {} fail{}\n", experiments_,
                                experiments_ == 1 ? "" : "s", held_, failed_,
                                failed_ == 0 ? "" : fmt::format(" ({})", fmt::join(failed_names_, ", ")));
    for (const std::string& reason : not_run_) console_.out << "not run: " << reason << "\n";
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void verify(const Check& check, std::vector<std::string> arguments, const std::filesystem::path& folder,
              std::vector<Verdict>& verdicts) {
    const bool is_schedule = arguments.front() == "schedule";
    if (is_schedule) {
      arguments.emplace_back("--json");
    } else {
      std::error_code ignored;
      std::filesystem::remove(folder / "summary.json", ignored);  // a summary of an earlier call would be checked
      arguments.insert(arguments.end(), {"--out", folder.string()});
    }
    std::ostringstream printed;
    Console inner{.out = printed, .err = console_.err, .terminal = console_.terminal};
    inner.end_at_once = console_.end_at_once;
    const int code = call_(arguments, inner);
    if (!command_.name.empty() && !is_schedule) console_.out << "\n" << printed.str() << "\n" << std::flush;
    if (code != check.exit_code)
      verdicts.push_back({.claim = fmt::format("exit code of {}", arguments.front()),
                          .expected = fmt::format("{}", check.exit_code),
                          .got = fmt::format("{}", code),
                          .holds = false});
    const OrderedJson summary = summary_of(folder, printed.str(), is_schedule);
    for (const Claim& claim : check.claims)
      if (belongs(claim.when, command_.quick)) verdicts.push_back(verdict_on(claim, summary));
  }

  const ReproduceCommand& command_;
  const Console& console_;
  const CallProgram& call_;
  std::size_t experiments_ = 0;
  std::size_t held_ = 0;
  std::size_t failed_ = 0;
  std::vector<std::string> failed_names_;
  std::vector<std::string> not_run_;
};

std::string list_of(const std::vector<Claims>& all) {
  std::size_t width = std::string_view("experiment").size();
  double seconds = 0;
  double quick = 0;
  for (const Claims& claims : all) {
    width = std::max(width, claims.name.size());
    seconds += claims.seconds;
    quick += claims.quick_seconds;
  }
  const auto line = [width](std::string_view name, std::string_view full, std::string_view brief,
                            std::string_view shows) {
    return fmt::format("{:<{}}  {:>12}  {:>8}  {}\n", name, width, full, brief, shows);
  };
  const auto time = [](double value) { return value > 0 ? format_seconds(value) : std::string("-"); };
  std::string text = line("experiment", "time", "--quick", "what it shows");
  for (const Claims& claims : all)
    text += line(claims.name, time(claims.seconds), time(claims.quick_seconds), claims.shows);
  text += line("all", format_seconds(seconds), format_seconds(quick), "");
  text.erase(text.find_last_not_of(" \n") + 1);
  return text +
         "\n(times on two cores)\n\n./heddle reproduce NAME runs one of them, --all runs all; --quick shortens each to "
         "seconds\n";
}

}  // namespace

int reproduce_command(const ReproduceCommand& command, const Console& console, const CallProgram& call) {
  if (!command.name.empty() && command.all)
    fail<InputError>("reproduce: expected the name of an experiment or --all, got both");
  const std::vector<Claims> all = read_all_claims(command.claims);
  if (command.name.empty() && !command.all && !command.quick) {
    console.out << list_of(all);
    return 0;
  }
  Reproduction reproduction(command, console, call);
  if (command.name.empty()) {
    for (const Claims& claims : all) reproduction.run(claims);
    return reproduction.finish();
  }
  const auto named =
      std::find_if(all.begin(), all.end(), [&](const Claims& claims) { return claims.name == command.name; });
  if (named == all.end()) {
    std::vector<std::string> names;
    for (const Claims& claims : all) names.push_back(claims.name);
    const std::string near = suggestion(command.name, names);
    fail<InputError>("reproduce: no experiment {}{}", in_quotes(command.name),
                     near.empty() ? "; expected " + one_of_words(names) : near);
  }
  if (!named->needs_data.empty() && command.data.empty())
    fail<InputError>("reproduce: {} needs --data DIR, the folder that holds {}", named->name, named->needs_data);
  reproduction.run(*named);
  return reproduction.finish();
}

}  // namespace heddle
