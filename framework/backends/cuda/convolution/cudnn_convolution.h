// cuDNN's convolutions of NHWC images, each made once per geometry. f32 is multiplied in f32, not in TF32 and not by
// Winograd's transforms; 16-bit types are summed in f32. Only algorithms that give the same bits every time are taken.
// Where the algorithm can, it adds the bias too.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <cudnn.h>

#include "framework/backends/cuda/context.h"
#include "framework/kernels/convolution.h"

namespace heddle::cuda {

/// The owner of a cuDNN descriptor, from the function that destroys it.
template <class Descriptor, cudnnStatus_t (*destroy)(Descriptor)>
struct CudnnOwner {
  struct Destroy {
    void operator()(Descriptor descriptor) const { (void)destroy(descriptor); }
  };
  using Pointer = std::unique_ptr<std::remove_pointer_t<Descriptor>, Destroy>;
};

using CudnnTensor = CudnnOwner<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>::Pointer;

struct CudnnConvolution {
  CudnnTensor x;
  CudnnTensor y;
  CudnnTensor bias;  // only for a forward part whose algorithm can add one, else null
  CudnnOwner<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>::Pointer weight;
  CudnnOwner<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>::Pointer operation;
  ConvolutionPart part{};
  int algorithm = 0;  // of the part's enumeration
  cudnnMathType_t math{};
  std::size_t workspace = 0;
  bool is_refused = false;  // when it was to be run
  bool adds_bias = false;   // has done so
};

/// A convolution for which an algorithm is chosen once.
struct ConvolutionCase {
  ConvolutionGeometry geometry;
  ConvolutionPart part{};
  DType dtype{};
  auto operator<=>(const ConvolutionCase&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
};
/// The case in words, and what computes it.
ChosenConvolution chosen(const ConvolutionCase& c, std::string algorithm);

class CudnnConvolutions {
 public:
  explicit CudnnConvolutions(const Context& context) : context_(context) {}

  /// Null if cuDNN has nothing for it.
  CudnnConvolution* find(const ConvolutionCase& c);
  /// No needs where cuDNN has nothing.
  ConvolutionNeeds needs(const ConvolutionCase& c);
  /// Addresses are multiples of 16. False if cuDNN will not run it after all; then nothing was done.
  bool run(CudnnConvolution& convolution, void* x, void* weight, void* y, void* workspace);
  /// The same for a forward part, with the bias added in the same kernel. False also where the algorithm adds none.
  bool run_with_bias(CudnnConvolution& convolution, void* x, void* weight, void* bias, void* y, void* workspace);
  std::vector<ChosenConvolution> chosen() const;

 private:
  std::optional<CudnnConvolution> make(const ConvolutionCase& c);
  cudnnHandle_t handle();
  cudnnActivationDescriptor_t identity();

  const Context& context_;
  CudnnOwner<cudnnHandle_t, cudnnDestroy>::Pointer handle_;  // from the first convolution on
  CudnnOwner<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor>::Pointer identity_;
  std::map<ConvolutionCase, std::optional<CudnnConvolution>> cache_;
};

}  // namespace heddle::cuda
