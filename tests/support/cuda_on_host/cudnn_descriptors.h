// The contents of cuDNN's descriptors on the host.
#pragma once

#include <cstdint>

#include "tests/support/cuda_on_host/cudnn.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type{};
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const cudnnTensorStruct&) const = default;
};
struct cudnnFilterStruct {
  cudnnDataType_t type{};
  std::int64_t filters = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};
struct cudnnConvolutionStruct {
  std::int64_t pad[2] = {};
  std::int64_t stride[2] = {};
  std::int64_t dilation[2] = {};
  std::int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode{};
  cudnnNanPropagation_t propagation = CUDNN_PROPAGATE_NAN;
};
