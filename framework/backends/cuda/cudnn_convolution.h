// cuDNN's convolutions of NHWC images, made once a geometry. f32 is multiplied in f32, not in TF32 and not by
// Winograd's transforms; 16-bit types are summed in f32. Only algorithms that give the same bits every time are taken.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include <cudnn.h>

#include "framework/backends/cuda/context.h"
#include "framework/kernels/convolution.h"

namespace heddle::cuda {

/// Makes a cuDNN descriptor's owner of the functions that create and destroy it.
template <class Descriptor, cudnnStatus_t (*destroy)(Descriptor)>
struct CudnnOwner {
  struct Destroy {
    void operator()(Descriptor descriptor) const { (void)destroy(descriptor); }
  };
  using Pointer = std::unique_ptr<std::remove_pointer_t<Descriptor>, Destroy>;
};

struct CudnnConvolution {
  CudnnOwner<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>::Pointer x;
  CudnnOwner<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>::Pointer y;
  CudnnOwner<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>::Pointer weight;
  CudnnOwner<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>::Pointer operation;
  ConvolutionPart part{};
  int algorithm = 0;  // of the part's enumeration
  std::size_t workspace = 0;
};

class CudnnConvolutions {
 public:
  /// Algorithms that want more are left out.
  static constexpr std::size_t most_workspace = std::size_t{512} << 20;

  explicit CudnnConvolutions(const Context& context) : context_(context) {}

  /// Null if cuDNN has nothing for it.
  const CudnnConvolution* find(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype);
  /// Addresses of multiples of 16. False if cuDNN will not run it after all; then nothing was done.
  bool run(const CudnnConvolution& convolution, void* x, void* weight, void* y, void* workspace);

 private:
  using Key = std::array<std::int64_t, 18>;  // the geometry's numbers, the part and the type
  std::optional<CudnnConvolution> make(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype);
  cudnnHandle_t handle();

  const Context& context_;
  CudnnOwner<cudnnHandle_t, cudnnDestroy>::Pointer handle_;  // from the first convolution on
  std::map<Key, std::optional<CudnnConvolution>> cache_;
};

}  // namespace heddle::cuda
