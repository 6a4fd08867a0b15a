// Gradients against finite differences.
#pragma once

#include <string>

#include "tests/support/operation_cases.h"

namespace heddle::test {

/// For each input of a case in f64, the largest difference between its gradient and the fourth-order central difference
/// (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h, over the largest of the gradients that are compared. An
/// input of many elements is differenced at some of them, which are spread over it, and along two directions in which
/// all of them change.
struct GradientError {
  double largest = 0;
  std::string where;  // the element or the direction, its value and the expected one
};
GradientError gradient_error(const OperationCase& operation, Device& device);

}  // namespace heddle::test
