// The scratch memory that operations hand to kernels. Internal to the operations.
#pragma once

#include <cstdint>

#include "framework/tensors/device.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// u8[bytes] in Category::workspace; undefined if there are no bytes.
inline Tensor workspace_of(Device& device, std::int64_t bytes) {
  if (bytes == 0) return {};
  const MemoryScope scope(device, Category::workspace);
  return Tensor::empty(device, {bytes}, DType::u8);
}

}  // namespace heddle
