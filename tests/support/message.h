// The text of an error.
#pragma once

#include <string>

#include "framework/error.h"

namespace heddle::test {

/// The message of the error of this class that `action` throws; an error of another class passes.
template <class ErrorType = Error>
std::string message_of(const auto& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace heddle::test
