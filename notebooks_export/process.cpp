#include "notebooks_export/process.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/error.h"

namespace heddle {

namespace {

std::string contents_of(std::FILE* file) {
  std::string text;
  char piece[4096];
  std::rewind(file);
  while (const std::size_t got = std::fread(piece, 1, sizeof piece, file)) text.append(piece, got);
  return text;
}

}  // namespace

std::optional<Finished> run_program(const std::string& program, const std::vector<std::string>& arguments,
                                    const std::filesystem::path& folder) {
  // A file, not a pipe, which would have to be read while the program writes.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(std::tmpfile(), std::fclose);
  if (!output) fail("{}: no temporary file for its output: {}", program, std::generic_category().message(errno));
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(output.get()), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(output.get()), STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return std::nullopt;
  if (error != 0) fail("{}: cannot be run: {}", program, std::generic_category().message(error));

  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("{}: lost: {}", program, std::generic_category().message(errno));
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return Finished{.exit_code = code, .output = contents_of(output.get())};
}

}  // namespace heddle
