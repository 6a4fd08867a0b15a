// Where the cells of a convolution's or a pool's output meet its input, along one dimension. The kernels of every
// backend with data share these.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/host_device.h"

namespace heddle {

/// The input coordinate that a kernel tap meets, or -1 if it lies in the padding.
HEDDLE_HOST_DEVICE inline std::int64_t input_of(std::int64_t out, std::int64_t tap, std::int64_t stride,
                                                std::int64_t padding, std::int64_t dilation, std::int64_t size) {
  const std::int64_t at = out * stride - padding + tap * dilation;
  return at >= 0 && at < size ? at : -1;
}

/// The output coordinate whose tap meets this input, or -1.
HEDDLE_HOST_DEVICE inline std::int64_t output_of(std::int64_t in, std::int64_t tap, std::int64_t stride,
                                                 std::int64_t padding, std::int64_t dilation, std::int64_t size) {
  const std::int64_t at = in + padding - tap * dilation;
  return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
}

/// The part of the input that one output coordinate of a pool sees.
struct PoolWindow {
  HEDDLE_HOST_DEVICE PoolWindow(std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                std::int64_t size)
      : begin(std::max<std::int64_t>(0, out * stride - padding)),
        end(std::min(size, out * stride - padding + kernel)),
        // Padding on the far side counts only as far as it was asked for.
        padded(std::min(size + padding, out * stride - padding + kernel) - (out * stride - padding)) {}
  std::int64_t begin;
  std::int64_t end;
  std::int64_t padded;  // cells, those in the padding included
};

}  // namespace heddle
