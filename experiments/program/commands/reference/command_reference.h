// The commands and their options as data, read from the command line's own description, and what is written from them:
// completions for shells, and the manual page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace heddle {

struct OptionReference {
  std::string name{};   // `--out`, or of an operand `FILE`
  std::string value{};  // `DIR`; empty: it takes none
  std::string help{};
  bool is_required = false;
  bool is_repeated = false;
};

struct CommandReference {
  std::string path;  // `heddle`, `heddle data pack`
  std::string help;
  std::vector<OptionReference> operands{};
  std::vector<OptionReference> options{};
  std::vector<CommandReference> commands{};

  /// The last word of the path.
  std::string_view name() const { return std::string_view(path).substr(path.rfind(' ') + 1); }
};

/// A program, or one of its commands, with all commands below it.
CommandReference reference_of(const CLI::App& app, const std::string& path);

/// A script that completes the program's commands and options in a shell; file names complete everything else.
std::string bash_completion(const CommandReference& program);
std::string zsh_completion(const CommandReference& program);
std::string fish_completion(const CommandReference& program);

/// The page for `man`, in roff.
std::string manual_page(const CommandReference& program, std::string_view version);

}  // namespace heddle
