// The manual page, the completions and extensions of the program, as far as they need no installation;
// tests/packaging/install_test.sh uses them all.
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "experiments/program/commands/reference/command_reference.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/message.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {

using test::call;
using test::Called;

TEST_CASE("every shell's completions have each command with its options, from the command line's own description") {
  const Called help = call({"data", "pack", "--help"});
  for (const std::string option : {"--people", "--help"}) {
    REQUIRE(help.out.find(option) != std::string::npos);
    for (const std::string shell : {"bash", "zsh"}) {
      CAPTURE(shell);
      const Called called = call({"completion", shell});
      CHECK(called.code == 0);
      const std::size_t command = called.out.find("'heddle data pack')");
      REQUIRE(command != std::string::npos);
      CHECK(called.out.find(option, command) != std::string::npos);
    }
    CHECK(call({"completion", "fish"}).out.find("= \"heddle data pack\"' -l " + option.substr(2)) != std::string::npos);
  }
  CHECK(call({"completion", "csh"}).code == 2);
}

TEST_CASE("the manual page has the options of each command, and no line that roff would take for a request") {
  const CommandReference program{
      .path = "p",
      .help = "does it",
      .commands = {{.path = "p go",
                    .help = "goes",
                    .operands = {{.name = "FILE", .help = "first\n.second", .is_required = true, .is_repeated = true}},
                    .options = {{.name = "--in-place", .value = "DIR", .help = "back\\slash"}}}}};
  const std::string page = manual_page(program, "1.2");
  CHECK(page.find(R"(.SS p go
\fBp go\fR \fIFILE\fR... [\fIOPTION\fR]...
.PP
goes.
.TP
\fBFILE\fR
first
\&.second
.TP
\fB\-\-in\-place\fR \fIDIR\fR
back\eslash
)") != std::string::npos);
  CHECK(call({"man"}).out.find(".SS heddle schedule\n") != std::string::npos);
}

TEST_CASE("an extension that is no library is an error that names the file, before any command") {
  const Scratch folder;
  const std::string none = (folder / "none.so").string();
  const Called called = call({"--extension", none, "list"});
  CHECK(called.code == 2);
  CHECK(called.err == "heddle: extension " + none + ": expected a shared library, found no such file\n");
  const std::string text = (folder / "text.so").string();
  std::ofstream(text) << "text\n";
  CHECK(call({"--extension=" + text, "list"}).err.starts_with("heddle: extension " + text + ": it cannot be opened: "));
  CHECK(call({"--extension"}).code == 2);
}

TEST_CASE("an extension's schedule needs a new name") {
  for (const std::string_view name : {"1f1b", "csv"}) {
    const ScheduleType type{name, "", gpipe};
    CHECK(message_of<InputError>([&] {
            add_schedules({&type, 1});
          }) == fmt::format("there is a schedule \"{}\" already", name));
  }
}

}  // namespace heddle::test
