#include "tests/support/cuda_on_host/cudnn.h"

#include <initializer_list>
#include <limits>

#include "tests/support/cuda_on_host/cudnn_descriptors.h"

namespace {

template <class Descriptor>
cudnnStatus_t create(Descriptor** descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = new Descriptor;
  return CUDNN_STATUS_SUCCESS;
}
template <class Descriptor>
cudnnStatus_t destroy(Descriptor* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_sizes(std::initializer_list<std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size < 1) return CUDNN_STATUS_BAD_PARAM;
    product *= size;
    if (product > std::numeric_limits<std::int32_t>::max()) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "bad parameter, or not supported";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  count_call(&CallsOnHost::device_wide);
  return create(handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return destroy(handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int batch, int channels, int height, int width) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (format != CUDNN_TENSOR_NHWC) return CUDNN_STATUS_NOT_SUPPORTED;
  *descriptor = {type, batch, channels, height, width};
  return check_sizes({batch, channels, height, width});
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int filters, int channels, int height, int width) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (format != CUDNN_TENSOR_NHWC) return CUDNN_STATUS_NOT_SUPPORTED;
  *descriptor = {type, filters, channels, height, width};
  return check_sizes({filters, channels, height, width});
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_height, int pad_width,
                                              int stride_height, int stride_width, int dilation_height,
                                              int dilation_width, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (pad_height < 0 || pad_width < 0 || mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT)
    return CUDNN_STATUS_BAD_PARAM;
  *descriptor = {{pad_height, pad_width}, {stride_height, stride_width}, {dilation_height, dilation_width}};
  return check_sizes({stride_height, stride_width, dilation_height, dilation_width});
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  if (descriptor == nullptr || groups < 1) return CUDNN_STATUS_BAD_PARAM;
  descriptor->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  descriptor->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t propagation, double /*coefficient*/) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = {mode, propagation};
  return CUDNN_STATUS_SUCCESS;
}
