// Environment variables that a test sets.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace heddle::test {

/// Sets a variable of the environment during its lifetime and restores it afterwards.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~EnvironmentVariable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace heddle::test
