#include <functional>
#include <iterator>

#include <fmt/format.h>

#include "experiments/program/commands/reference/command_reference.h"

namespace heddle {

namespace {

/// Calls `visit` for the program and for all commands below it.
void for_each_command(const CommandReference& command, const std::function<void(const CommandReference&)>& visit) {
  visit(command);
  for (const CommandReference& inner : command.commands) for_each_command(inner, visit);
}

/// In single quotes, of which the text itself has none then.
std::string quoted(std::string text) {
  for (char& c : text)
    if (c == '\'' || c == '\n') c = c == '\n' ? ' ' : '`';
  return "'" + text + "'";
}

/// The same, for zsh's lists of `word:description`.
std::string described(const std::string& word, const std::string& help) {
  return quoted(word + ":" + help);
}

/// The part of bash's and zsh's scripts that finds the command: options and their values do not belong to its path.
constexpr std::string_view find_path = R"(  local path=heddle word
  for word in "${before[@]}"; do
    case "$path $word" in
)";

/// The patterns of all paths below the program's own.
std::string paths_pattern(const CommandReference& program) {
  std::string text;
  for_each_command(program, [&](const CommandReference& command) {
    if (&command == &program) return;
    fmt::format_to(std::back_inserter(text), "{}'{}'", text.empty() ? "      " : " | ", command.path);
  });
  return text + ") path=\"$path $word\" ;;\n    esac\n  done\n";
}

}  // namespace

std::string bash_completion(const CommandReference& program) {
  std::string text = "# bash completion of heddle, written by `heddle completion bash`\n_heddle() {\n";
  text += "  local before=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\") words=''\n";
  text += find_path;
  text += paths_pattern(program);
  text += "  case \"$path\" in\n";
  for_each_command(program, [&](const CommandReference& command) {
    std::string words;
    for (const CommandReference& inner : command.commands) words += std::string(inner.name()) + " ";
    for (const OptionReference& option : command.options) words += option.name + " ";
    words.pop_back();
    fmt::format_to(std::back_inserter(text), "    '{}') words='{}' ;;\n", command.path, words);
  });
  text += R"(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o bashdefault -o default -F _heddle heddle
)";
  return text;
}

std::string zsh_completion(const CommandReference& program) {
  std::string text = "#compdef heddle\n# zsh completion of heddle, written by `heddle completion zsh`\n_heddle() {\n";
  text += "  local -a before commands options\n  before=(\"${(@)words[2,CURRENT-1]}\")\n";
  text += find_path;
  text += paths_pattern(program);
  text += "  case \"$path\" in\n";
  for_each_command(program, [&](const CommandReference& command) {
    fmt::format_to(std::back_inserter(text), "    '{}')\n      commands=(", command.path);
    for (const CommandReference& inner : command.commands)
      text += "\n        " + described(std::string(inner.name()), inner.help);
    text += ")\n      options=(";
    for (const OptionReference& option : command.options) text += "\n        " + described(option.name, option.help);
    text += ")\n      ;;\n";
  });
  text += R"(  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option options
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}
_heddle "$@"
)";
  return text;
}

std::string fish_completion(const CommandReference& program) {
  std::string text = R"(# fish completion of heddle, written by `heddle completion fish`
function __heddle_path
    set -l path heddle
    for word in (commandline -opc)[2..]
        switch "$path $word"
            case)";
  for_each_command(program, [&](const CommandReference& command) {
    if (&command != &program) text += " '" + command.path + "'";
  });
  text += R"(
                set path "$path $word"
        end
    end
    echo $path
end
)";
  for_each_command(program, [&](const CommandReference& command) {
    const std::string line = fmt::format("complete -c heddle -n 'test (__heddle_path) = \"{}\"'", command.path);
    for (const CommandReference& inner : command.commands)
      text += fmt::format("{} -f -a {} -d {}\n", line, inner.name(), quoted(inner.help));
    for (const OptionReference& option : command.options)
      text += fmt::format("{} -l {} {}-d {}\n", line, option.name.substr(2), option.value.empty() ? "" : "-r ",
                          quoted(option.help));
  });
  return text;
}

}  // namespace heddle
