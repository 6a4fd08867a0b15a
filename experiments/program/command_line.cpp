#include "experiments/program/command_line.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <new>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "experiments/config/wording.h"
#include "experiments/extensions/extension.h"
#include "experiments/program/command_table.h"
#include "framework/description/printable.h"
#include "framework/error.h"
#include "parallel/transports/join_job.h"
#include "parallel/transports/processes/tcp/rendezvous_address.h"
#include "parallel/transports/transports.h"

namespace heddle {

namespace {

constexpr std::string_view extension_option = "--extension";

/// The first word that looks like an option among those that the command does not know; empty if there is none.
std::string unknown_option(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (word == "--") break;
    if (word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0)
      return word.substr(0, word.find('='));
  }
  return {};
}

/// What is wrong with a command line: the first option that a command does not have, or else what CLI11 says.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  std::string name;  // `data show`
  const CLI::App* command = &app;
  while (command != nullptr) {
    if (const std::string option = unknown_option(*command); !option.empty()) {
      if (command == &app) return fmt::format("{}: options follow the command", option);
      std::vector<std::string> known;
      for (const CLI::Option* one : command->get_options())
        for (const std::string& long_name : one->get_lnames()) known.push_back("--" + long_name);
      return fmt::format("{}: {} has no such option{}", option, name, suggestion(option, known));
    }
    const std::vector<CLI::App*> called = command->get_subcommands();
    command = called.empty() ? nullptr : called.front();
    if (command != nullptr) name += (name.empty() ? "" : " ") + command->get_name();
  }
  return error.what();
}

/// The output of the processes other than rank 0's: nothing.
class NullBuffer : public std::streambuf {
  int overflow(int character) override { return traits_type::not_eof(character); }
};

/// `cpu, cuda 13.0, nccl 2.28`: the devices that experiments can be computed on, and the library between GPUs. Without
/// CUDA the text gives the reason and how to build it in.
std::string devices_text() {
  std::string text = "cpu";
  for (const auto& [library, version] : cuda_versions())
    if (library == "cuda") text += ", cuda " + version;
  for (const TransportType& transport : transport_types())
    if (const auto version = transport.version == nullptr ? std::nullopt : transport.version())
      text += fmt::format(", {} {}", transport.name, *version);
  if (const std::optional<std::string> absence = cuda_absence()) text += "; without cuda: " + *absence;
  return text;
}

/// The arguments from the command's name on: extensions stand before it.
std::vector<std::string_view> command_words(int argc, const char* const* argv) {
  std::vector<std::string_view> words(argv + 1, argv + std::max(argc, 1));
  while (!words.empty() && words[0].starts_with(extension_option)) {
    const std::size_t taken = words[0] == extension_option ? 2 : 1;
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(std::min(taken, words.size())));
  }
  return words;
}

/// Commands that all processes of a job run together join `job`; each process prints on `all` which ranks it waits for.
int dispatch(CLI::App& app, int argc, const char* const* argv, const Console& console, std::unique_ptr<Job>& job,
             std::ostream& all) {
  app.require_subcommand(1);
  app.footer(
      "The launcher adds two commands: `heddle test` builds and runs the tests, `heddle setup` installs and builds.\n"
      "`mpirun -n 4 ./heddle run FILE` runs each of four ranks as a separate process (Open MPI, MPICH, srun).");
  app.set_version_flag("--version", fmt::format("heddle {} ({})", HEDDLE_VERSION, devices_text()));
  app.add_option_function<std::string>(
         std::string(extension_option), [](const std::string& file) { load_extension(file); },
         "add the layers, schedules and margins of a shared library (docs/extending.md)")
      ->type_name("FILE.so")
      ->trigger_on_parse();
  CommandCall call{
      .console = console, .all = all, .join = [&] {
        job = join_job([&all](const std::string& what) { all << what << "\n" << std::flush; }, call.elastic_checksum);
        if (job)
          job->set_on_silent_leader([&all, rank = job->rank()](const std::string& why) {
            all << fmt::format("heddle: rank {}: {}\n", rank, why) << std::flush;
          });
        return job.get();
      }};
  add_commands(app, call);
  // CLI11's own error of a missing or unknown command names no command.
  check_command_names(app, command_words(argc, argv));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success, console.out, console.err);
  } catch (const CLI::ParseError& error) {
    fail<InputError>("{}", complaint(app, error));
  }
  return call.code;
}

/// `prefix` begins the message: `heddle: `. Every process prints on `all`; only rank 0's prints on the other streams.
int report_errors(int argc, const char* const* argv, const Console& console, std::unique_ptr<Job>& job,
                  std::ostream& all, const std::string& prefix) {
  const auto report = [&console, &prefix](const std::exception& error, int code) {
    console.err << prefix << printable_lines(error.what()) << "\n" << std::flush;
    return code;
  };
  try {
    CLI::App app("Heddle: studies of parallel training, and training of face recognition models with very many classes",
                 "heddle");
    const int code = dispatch(app, argc, argv, console, job, all);
    if (!console.out.flush()) fail<DiskError>("standard output cannot be written: the disk is full, or it was closed");
    return code;
  } catch (const DiskError& error) {
    return report(error, 5);
  } catch (const InputError& error) {
    return report(error, 2);
  } catch (const OutOfMemory& error) {
    return report(error, 3);
  } catch (const RankFailed& error) {
    return report(error, 4);
  } catch (const std::bad_alloc&) {
    return report(OutOfMemory("out of memory: the system has no memory for the program's own data"), 3);
  } catch (const std::exception& error) {
    return report(error, 1);
  }
}

}  // namespace

int run_command_line(int argc, const char* const* argv, const Console& console) {
  std::optional<Launch> launch;
  try {
    launch = launch_of_environment();
  } catch (const InputError& error) {
    // This process cannot know its rank, so each one prints the error.
    console.err << "heddle: " << error.what() << "\n" << std::flush;
    return 2;
  }
  std::unique_ptr<Job> job;
  std::ostringstream said;  // by a process other than rank 0's
  const std::string prefix = launch && launch->rank > 0 ? fmt::format("heddle: rank {}: ", launch->rank) : "heddle: ";
  int code = 0;
  if (!launch || launch->rank == 0) {
    code = report_errors(argc, argv, console, job, console.err, prefix);
  } else if (joins_job(command_words(argc, argv))) {
    // All processes of a job fail with the same errors; rank 0 prints them.
    NullBuffer null_buffer;
    std::ostream silent(&null_buffer);
    code = report_errors(argc, argv, {silent, said, {}}, job, console.err, prefix);
    // Processes that connect by sockets form a job only once they are connected.
    if (!job && has_rendezvous_address()) console.err << said.str() << std::flush;
  }
  if (!job) return code;
  // Wait until rank 0 has written everything: some launchers end all processes when the first one fails.
  job->leave(code);
  const std::optional<std::string> lost = job->why_lost(0);
  if (lost || job->has_left()) {
    // Rank 0 prints nothing for this process.
    const std::string text = said.str();
    const std::size_t own_error = text.rfind(prefix);
    if (own_error != std::string::npos)
      console.err << text.substr(own_error) << std::flush;
    else if (lost)
      console.err << fmt::format("{}{}\n", prefix, *lost) << std::flush;
  }
  return lost && code == 0 ? 4 : code;
}

}  // namespace heddle
