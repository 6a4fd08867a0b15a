#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "experiments/program/commands/command.h"
#include "experiments/program/study_input.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

void validate_command(const std::vector<std::filesystem::path>& files, const std::vector<std::string>& sets,
                      const Console& console) {
  std::vector<std::string> errors;
  for (const std::filesystem::path& file : files) {
    if (file.string().ends_with(".schema.json")) {  // so that experiments/*.json may be an argument
      console.out << fmt::format("{}: skipped, because it is the schema of experiments\n", file.string());
      continue;
    }
    try {
      Study<Experiment> study = read_checked_study(file, sets, console);
      const bool reads_files = std::any_of(study.variants.begin(), study.variants.end(),
                                           [](StudyVariant& member) { return !paths_of(member.root).empty(); });
      console.out << fmt::format("{}: valid, {}{}\n", file.string(),
                                 counted(static_cast<std::int64_t>(study.variants.size()), "variant", "variants"),
                                 reads_files ? "; its data were not opened" : "");
    } catch (const InputError& error) {
      errors.emplace_back(error.what());
    }
  }
  if (!errors.empty()) fail<InputError>("{}", fmt::join(errors, "\n"));
}

}  // namespace

void add_validate(CLI::App& app, CommandCall& call) {
  const auto files = std::make_shared<std::vector<std::filesystem::path>>();
  const auto sets = std::make_shared<std::vector<std::string>>();
  app.add_option("FILE", *files, "experiments (JSON)")->required();
  add_set_option(app, *sets);
  app.callback([&call, files, sets] { validate_command(*files, *sets, call.console); });
}

}  // namespace heddle
