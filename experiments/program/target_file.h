// A file that a command writes at its end, checked at its beginning.
#pragma once

#include <filesystem>
#include <initializer_list>

namespace heddle {

/// InputError if the target is there and may not be replaced, or never can be.
void check_target(const std::filesystem::path& target, bool replace);

/// InputError unless the file that an option names ends in one of these, or none is given.
void check_ending(const char* option, const std::filesystem::path& path, std::initializer_list<const char*> endings);

/// InputError if the folder of a file, or the file itself, cannot be written; nothing if none is given. So that it is
/// not found only when the work is done.
void check_writable(const std::filesystem::path& path);

/// For a file that a command writes beside its target: InputError if it is there and the target is not, so that an
/// earlier call has not written it.
void check_beside(const std::filesystem::path& target, const std::filesystem::path& beside);

}  // namespace heddle
