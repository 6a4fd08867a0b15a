// Errors are exceptions that say what was expected, what was found, and where. Libraries never print or exit: the
// command line turns each class into an exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace heddle {

/// Base of every error that Heddle raises itself. Exit code 1 unless a subclass says otherwise.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's input is wrong: an experiment file, an image, a shape, an argument. Exit code 2.
class InputError : public Error {
 public:
  using Error::Error;
};

/// Results cannot be written: the disk or what standard output leads to is full, has failed, or accepts no writes any
/// more. Exit code 5.
class DiskError : public InputError {
 public:
  using InputError::InputError;
};

/// A rank needed more memory than its budget. Exit code 3.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// A rank failed, or others had to stop because it did. The message names the rank. Exit code 4.
class RankFailed : public Error {
 public:
  using Error::Error;
};

/// Throws ErrorType with a formatted message: `fail<InputError>("matmul: {} and {} do not fit", a, b)`.
template <class ErrorType = Error, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw ErrorType(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace heddle
