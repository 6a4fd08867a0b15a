#include <string>

#include <fmt/format.h>

#include "experiments/program/commands/reference/command_reference.h"

namespace heddle {

namespace {

/// As roff prints it: a hyphen that can be copied as a minus, and no line that looks like a request.
std::string roff(std::string_view text) {
  std::string escaped;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
    begins_line = c == '\n';
  }
  return escaped;
}

/// `heddle eval CHECKPOINT [--out DIR]...`: the command in bold, the values in italics.
std::string synopsis(const CommandReference& command) {
  std::string text = fmt::format("\\fB{}\\fR", roff(command.path));
  if (!command.commands.empty()) text += " \\fICOMMAND\\fR";
  for (const OptionReference& operand : command.operands) {
    const std::string name = fmt::format("\\fI{}\\fR{}", roff(operand.name), operand.is_repeated ? "..." : "");
    text += " " + (operand.is_required ? name : "[" + name + "]");
  }
  return text + " [\\fIOPTION\\fR]...\n";
}

std::string entry(const OptionReference& option) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(option.name));
  if (!option.value.empty()) text += fmt::format(" \\fI{}\\fR", roff(option.value));
  return text + "\n" + roff(option.help) + "\n";
}

std::string section(const CommandReference& command) {
  std::string text;
  if (command.commands.empty()) {
    text = fmt::format(".SS {}\n{}.PP\n{}.\n", roff(command.path), synopsis(command), roff(command.help));
    for (const OptionReference& operand : command.operands) text += entry(operand);
    for (const OptionReference& option : command.options)
      if (option.name != "--help") text += entry(option);
  }
  for (const CommandReference& inner : command.commands) text += section(inner);
  return text;
}

}  // namespace

std::string manual_page(const CommandReference& program, std::string_view version) {
  std::string text = fmt::format(R"(.TH HEDDLE 1 "" "Heddle {}" "User Commands"
.SH NAME
heddle \- studies of parallel training, and training of face recognition models with very many classes
.SH SYNOPSIS
{}.SH DESCRIPTION
{}.
One JSON file describes one experiment.
\fBheddle help\fR explains its keys, and \fBheddle list\fR prints the names that it may use.
.SH OPTIONS
)",
                                 version, synopsis(program), roff(program.help));
  for (const OptionReference& option : program.options) text += entry(option);
  text += ".SH COMMANDS\n" + section(program);
  text += R"(.SH EXIT STATUS
.TP
0
Done.
.TP
1
An internal error, or a claim of \fBheddle reproduce\fR failed.
.TP
2
The input is wrong, or a file cannot be read.
.TP
3
Out of memory.
.TP
4
A rank failed.
.TP
5
The results, or standard output, could not be written.
.TP
128 + n
Ended by the signal n.
)";
  return text;
}

}  // namespace heddle
