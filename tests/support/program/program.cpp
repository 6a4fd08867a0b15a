#include "tests/support/program/program.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::test {

namespace {

std::int64_t resident_bytes_here() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0;
  statm >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

std::string program() {
  const char* const value = std::getenv("HEDDLE_PROGRAM");
  return value != nullptr ? value : HEDDLE_PROGRAM;
}

ProgramResult run_program(std::vector<std::string> arguments, const std::filesystem::path& out,
                          const std::filesystem::path& folder) {
  arguments.insert(arguments.begin(), program());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  const std::string err = out.string() + ".err";
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  // The child's peak begins with what this process holds, which other tests have driven up.
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  const std::int64_t inherited = resident_bytes_here();
  pid_t child = 0;
  const int spawned = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  rusage usage{};
  if (spawned != 0 || wait4(child, &status, 0, &usage) != child) return {.code = -1, .summary = {}, .err = {}};
  std::ifstream text(out);
  std::ifstream messages(err);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .resident_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024,
          .inherited_bytes = inherited,
          .summary = nlohmann::json::parse(text, nullptr, false),
          .err = std::string(std::istreambuf_iterator<char>(messages), {})};
}

}  // namespace heddle::test
