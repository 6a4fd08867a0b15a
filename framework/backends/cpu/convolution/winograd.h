// Winograd's minimal filtering F(4 x 4, 3 x 3) in f32 (Lavin and Gray, "Fast algorithms for convolutional neural
// networks", CVPR 2016): a quarter of the multiplications of a 3 x 3 convolution, for rounding errors some ten times as
// large. Images stay NHWC: tiles are transformed over channels, and 36 matrix products run in oneDNN.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/backends/cpu/onednn/onednn.h"
#include "framework/kernels/convolution.h"

namespace heddle::cpu {

/// One part of one convolution. Transformed weights are [36, in, out], or [36, out, in] for backward_input, with a gap
/// between the 36.
class Winograd {
 public:
  /// Nothing if the convolution is of another kind, or so small that nothing is gained.
  static std::optional<Winograd> make(const OneDnn& onednn, const ConvolutionGeometry& g, ConvolutionPart part,
                                      DType dtype);

  ConvolutionNeeds needs() const;
  /// Plain weight -> transformed weight, for forward and backward_input.
  void transform_weight(const float* weight, float* transformed) const;
  /// Forward: x -> y; backward_input: dy -> dx.
  void convolve(const OneDnn& onednn, const float* source, const float* transformed, float* target,
                std::byte* workspace) const;
  void backward_weight(const OneDnn& onednn, const float* x, const float* dy, float* dweight,
                       std::byte* workspace) const;

 private:
  struct Image {
    Extent size;
    std::int64_t channels;
  };
  Winograd() = default;
  void transform_forward_weight(const float* weight, float* transformed) const;
  const float* pixel(const Image& image, const float* data, std::int64_t n, std::int64_t h, std::int64_t w) const;
  void gather_source(const float* source, std::int64_t first, float* transformed) const;
  void gather_gradient(const float* gradient, std::int64_t first, float* transformed) const;
  void scatter_target(const float* products, std::int64_t first, float* target) const;
  void transform_gradient(const float* sums, float* dweight) const;

  ConvolutionPart part_ = ConvolutionPart::forward;
  std::int64_t in_ = 0;  // of the weight
  std::int64_t out_ = 0;
  Image source_{};  // tiles of 6 x 6 are read from it
  Image target_{};  // tiles of 4 x 4 cover it
  Extent padding_;  // of the source
  Extent tiles_;
  std::int64_t count_ = 0;  // tiles of all samples
  std::int64_t block_ = 0;  // tiles at a time
  std::int64_t slab_ = 0;   // output channels of the weight whose gradients are summed at a time
  std::int64_t weight_step_ = 0;
  dnnl::matmul product_;
  dnnl::memory::desc a_, b_, c_, scratch_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace heddle::cpu
