// The part of cuDNN that the cuda backend uses, on a machine without a GPU: convolutions of NHWC images by plain loops.
// What the library documents as a mistake is an error here, also where it would not notice. It proposes algorithms that
// the backend must not take, and refuses some geometries, as the library does.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
  CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003,
  CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006,
  CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH = 2008,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_NOT_SUPPORTED_SHAPE = 3002,
  CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE = 3003,
  CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
  CUDNN_STATUS_EXECUTION_FAILED = 5000,
};
const char* cudnnGetErrorString(cudnnStatus_t status);
#define CUDNN_MAJOR 9
#define CUDNN_MINOR 0

using cudnnHandle_t = struct cudnnContext*;
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);

enum cudnnDataType_t {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_DOUBLE = 1,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_BFLOAT16 = 9,
};
enum cudnnMathType_t { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 };
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 };
enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 };

enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 };
enum cudnnActivationMode_t { CUDNN_ACTIVATION_RELU = 1, CUDNN_ACTIVATION_IDENTITY = 5 };

using cudnnTensorDescriptor_t = struct cudnnTensorStruct*;
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int batch, int channels, int height, int width);

using cudnnFilterDescriptor_t = struct cudnnFilterStruct*;
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int filters, int channels, int height, int width);

using cudnnConvolutionDescriptor_t = struct cudnnConvolutionStruct*;
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_height, int pad_width,
                                              int stride_height, int stride_width, int dilation_height,
                                              int dilation_width, cudnnConvolutionMode_t mode, cudnnDataType_t compute);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math);

using cudnnActivationDescriptor_t = struct cudnnActivationStruct*;
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* descriptor);
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t propagation, double coefficient);

enum cudnnConvolutionFwdAlgo_t {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
  CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
};
enum cudnnConvolutionBwdDataAlgo_t {
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
};
enum cudnnConvolutionBwdFilterAlgo_t {
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5,
};
template <class Algorithm>
struct ProposalOnHost {
  Algorithm algo;
  cudnnStatus_t status;
  float time;
  std::size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
};
using cudnnConvolutionFwdAlgoPerf_t = ProposalOnHost<cudnnConvolutionFwdAlgo_t>;
using cudnnConvolutionBwdDataAlgoPerf_t = ProposalOnHost<cudnnConvolutionBwdDataAlgo_t>;
using cudnnConvolutionBwdFilterAlgoPerf_t = ProposalOnHost<cudnnConvolutionBwdFilterAlgo_t>;

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int* count);
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t weight,
                                                     cudnnConvolutionDescriptor_t operation, cudnnTensorDescriptor_t y,
                                                     int requested, int* returned,
                                                     cudnnConvolutionFwdAlgoPerf_t* proposals);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t weight,
                                                      cudnnConvolutionDescriptor_t operation, cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
                                      const void* x, cudnnFilterDescriptor_t weight_layout, const void* weight,
                                      cudnnConvolutionDescriptor_t operation, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_layout, void* y);
/// y = activation(alpha * conv(x) + beta * z + bias). So that both ways are tested, strides of 3 are refused.
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout, const void* x,
    cudnnFilterDescriptor_t weight_layout, const void* weight, cudnnConvolutionDescriptor_t operation,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, std::size_t workspace_bytes, const void* beta,
    cudnnTensorDescriptor_t z_layout, const void* z, cudnnTensorDescriptor_t bias_layout, const void* bias,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y_layout, void* y);

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle, int* count);
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t weight,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t operation,
                                                          cudnnTensorDescriptor_t dx, int requested, int* returned,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* proposals);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, cudnnFilterDescriptor_t weight,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t operation,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t weight_layout, const void* weight,
                                           cudnnTensorDescriptor_t dy_layout, const void* dy,
                                           cudnnConvolutionDescriptor_t operation,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_layout, void* dx);

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle, int* count);
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t operation,
    cudnnFilterDescriptor_t dweight, int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* proposals);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t operation,
    cudnnFilterDescriptor_t dweight, cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
                                             const void* x, cudnnTensorDescriptor_t dy_layout, const void* dy,
                                             cudnnConvolutionDescriptor_t operation,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dweight_layout, void* dweight);
