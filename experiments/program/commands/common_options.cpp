#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "experiments/program/commands/command.h"
#include "framework/description/printable.h"

namespace heddle {

CLI::Option& add_set_option(CLI::App& app, std::vector<std::string>& sets) {
  return *app.add_option("--set", sets, "override one key of the file, as in train.steps=5; may be given several times")
              ->type_name("KEY=JSON")
              ->allow_extra_args(false);
}

CLI::Option& add_checkpoint_option(CLI::App& app, std::filesystem::path& checkpoint) {
  return *app.add_option("CHECKPOINT", checkpoint,
                         "a folder step-..., a folder that contains some, or a results folder")
              ->required();
}

CLI::Option& add_raw_weights_option(CLI::App& app, bool& raw) {
  return *app.add_flag("--raw-weights", raw,
                       "take the weights of the last step, even if the checkpoint has averages (train.ema)");
}

CLI::Option& add_experiment_option(CLI::App& app, std::filesystem::path& file) {
  return *app.add_option("FILE", file, "the experiment (JSON)")->required();
}

CLI::Option& add_placements_option(CLI::App& app, bool& automatic) {
  return *app.add_option_function<std::string>(
                 "--placements", [&automatic](const std::string& which) { automatic = which == "auto"; },
                 "written: as in the file; auto: the fastest within memory_budget, as the planner chooses them (see "
                 "heddle explain)")
              ->check(CLI::IsMember({"written", "auto"}));
}

std::function<std::string(const std::string&)> not_empty(std::string expected) {
  return [expected = std::move(expected)](const std::string& text) {
    return text.empty() ? fmt::format("expected {}, got \"\"", expected) : "";
  };
}

std::string not_a_file(const std::string& text) {
  std::error_code unknown;
  return std::filesystem::exists(text, unknown) && !std::filesystem::is_directory(text, unknown)
             ? fmt::format("expected a folder, got the file {}", text)
             : "";
}

CLI::Option* take_integers(CLI::Option* option, std::int64_t min, std::int64_t max) {
  // CLI11's own error of 1e3 or of a word is that it is not in the range.
  const CLI::Range range(min, max);
  return option
      ->check([range, min, max](const std::string& text) {
        return range(text).empty()
                   ? ""
                   : fmt::format("expected an integer from {} to {}, got {}", min, max, in_quotes(text));
      })
      ->type_name(fmt::format("INT from {} to {}", min, max));
}

CLI::Option& add_out_option(CLI::App& app, std::filesystem::path& out, const std::string& help,
                            const std::string& expected) {
  return *app.add_option("--out", out, help)->check(not_empty(expected));
}

}  // namespace heddle
