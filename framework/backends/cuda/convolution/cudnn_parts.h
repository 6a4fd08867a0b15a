// The three parts of a convolution. cuDNN names their functions differently and orders their operands differently.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "framework/backends/cuda/convolution/cudnn_convolution.h"

namespace heddle::cuda {

struct Forward {
  static constexpr std::array<std::string_view, 8> algorithms{
      "implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling", "winograd", "winograd_nonfused"};
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Proposal = cudnnConvolutionFwdAlgoPerf_t;
  static bool is_winograd(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionForwardAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t propose(cudnnHandle_t handle, const CudnnConvolution& c, std::vector<Proposal>& proposals,
                               int* count) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, c.x.get(), c.weight.get(), c.operation.get(), c.y.get(),
                                                  static_cast<int>(proposals.size()), count, proposals.data());
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const CudnnConvolution& c, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, c.x.get(), c.weight.get(), c.operation.get(), c.y.get(),
                                                   algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const CudnnConvolution& c, const float* one, const float* zero,
                           void* x, void* weight, void* y, void* workspace) {
    return cudnnConvolutionForward(handle, one, c.x.get(), x, c.weight.get(), weight, c.operation.get(),
                                   static_cast<Algorithm>(c.algorithm), workspace, c.workspace, zero, c.y.get(), y);
  }
};

struct BackwardInput {
  static constexpr std::array<std::string_view, 6> algorithms{"algo_0",     "algo_1",   "fft",
                                                              "fft_tiling", "winograd", "winograd_nonfused"};
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Proposal = cudnnConvolutionBwdDataAlgoPerf_t;
  static bool is_winograd(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD ||
           algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t propose(cudnnHandle_t handle, const CudnnConvolution& c, std::vector<Proposal>& proposals,
                               int* count) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, c.weight.get(), c.y.get(), c.operation.get(), c.x.get(),
                                                       static_cast<int>(proposals.size()), count, proposals.data());
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const CudnnConvolution& c, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, c.weight.get(), c.y.get(), c.operation.get(), c.x.get(),
                                                        algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const CudnnConvolution& c, const float* one, const float* zero,
                           void* x, void* weight, void* y, void* workspace) {
    return cudnnConvolutionBackwardData(handle, one, c.weight.get(), weight, c.y.get(), y, c.operation.get(),
                                        static_cast<Algorithm>(c.algorithm), workspace, c.workspace, zero, c.x.get(),
                                        x);
  }
};

struct BackwardWeight {
  static constexpr std::array<std::string_view, 7> algorithms{
      "algo_0", "algo_1", "fft", "algo_3", "winograd", "winograd_nonfused", "fft_tiling"};
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Proposal = cudnnConvolutionBwdFilterAlgoPerf_t;
  static bool is_winograd(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD ||
           algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t propose(cudnnHandle_t handle, const CudnnConvolution& c, std::vector<Proposal>& proposals,
                               int* count) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, c.x.get(), c.y.get(), c.operation.get(),
                                                         c.weight.get(), static_cast<int>(proposals.size()), count,
                                                         proposals.data());
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const CudnnConvolution& c, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, c.x.get(), c.y.get(), c.operation.get(),
                                                          c.weight.get(), algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const CudnnConvolution& c, const float* one, const float* zero,
                           void* x, void* weight, void* y, void* workspace) {
    return cudnnConvolutionBackwardFilter(handle, one, c.x.get(), x, c.y.get(), y, c.operation.get(),
                                          static_cast<Algorithm>(c.algorithm), workspace, c.workspace, zero,
                                          c.weight.get(), weight);
  }
};

template <class F>
auto visit_part(ConvolutionPart part, F&& f) {
  switch (part) {
    case ConvolutionPart::forward:
      return f(Forward());
    case ConvolutionPart::backward_input:
      return f(BackwardInput());
    default:
      return f(BackwardWeight());
  }
}

}  // namespace heddle::cuda
