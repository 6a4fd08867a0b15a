// The checks of every backend with data before it touches the rows of a class table, which it would otherwise read as
// another type or past an end.
#pragma once

#include "framework/kernels/class_rows.h"

namespace heddle {

/// Checks a selection without an index; an index may be read on its device only.
void check(const ClassSelection& selection, const Tensor& weight);
void check(const ClassTable& table, const ClassSelection& selection, const Tensor& rows, const Tensor& products,
           const ClassStep& step);
void check(const ClassTable& table, const DeferredSteps& steps);

}  // namespace heddle
