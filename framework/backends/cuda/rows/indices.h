// The check of indices with which several kernels begin.
#pragma once

#include <cstdint>

#include "framework/backends/cuda/context.h"

namespace heddle::cuda {

/// Leaves the first index outside [0, rows) as the context's fault, unless there is one already.
void check_indices(const Context& context, Fault::Of of, const std::int64_t* index, std::int64_t count,
                   std::int64_t rows);

}  // namespace heddle::cuda
