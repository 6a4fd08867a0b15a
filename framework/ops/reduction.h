// Reductions; the reduced dimension disappears. A negative dimension counts from the end.
#pragma once

#include "framework/autograd/autograd.h"

namespace heddle {

/// Reduces all elements, to shape [].
Variable sum(const Variable& x);
Variable mean(const Variable& x);
/// Reduces one dimension.
Variable sum(const Variable& x, int dimension);
Variable mean(const Variable& x, int dimension);
/// The gradient goes to the first of equal maxima. InputError if the dimension is empty.
Variable max(const Variable& x, int dimension);

}  // namespace heddle
