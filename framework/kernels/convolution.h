// Convolutions. Images are NHWC; weights are [out, kh, kw, in/groups].
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/kernels/extent.h"
#include "framework/tensors/tensor.h"

namespace heddle {

struct ConvolutionGeometry {
  std::int64_t batch = 0;
  Extent input;
  std::int64_t in_channels = 0;
  Extent output;
  std::int64_t out_channels = 0;
  Extent kernel;
  Extent stride;
  Extent padding;
  Extent dilation;
  std::int64_t groups = 1;
  auto operator<=>(const ConvolutionGeometry&) const = default;  // NOLINT(modernize-use-nullptr): as in extent.h
  /// No sample, or one side without channels (a rank may hold none of a sharded layer's): nothing is multiplied.
  bool is_empty() const { return batch == 0 || in_channels == 0 || out_channels == 0; }
  /// The number of elements of the weight.
  std::int64_t weights() const { return out_channels * kernel.height * kernel.width * (in_channels / groups); }
};
/// `[8,56,56,64] -> [8,28,28,128], kernel 3x3, stride 2x2, padding 1x1`, and dilation and groups where they are not 1.
std::string to_string(const ConvolutionGeometry& g);

enum class ConvolutionPart { forward, backward_input, backward_weight };
std::string_view name_of(ConvolutionPart part);

/// What a part of a convolution needs besides its tensors.
struct ConvolutionNeeds {
  std::int64_t workspace = 0;      // scratch bytes
  std::int64_t packed_weight = 0;  // bytes of the weight (or its gradient) in the kernel's own layout; 0: plain is best
  std::int64_t layout = 0;         // parts and geometries of equal number share one packed weight
  bool adds = false;               // the weight's gradient can be added to another as it is unpacked
};

/// How a part of a convolution is computed, where a library has several ways.
struct ChosenConvolution {
  std::string geometry{};  // as `to_string` writes it
  std::string part{};
  std::string dtype{};         // `bf16`
  std::string algorithm{};     // the library's name; `plain`: by its definition, in a kernel of our own
  std::string math{};          // the library's name; empty for `plain`
  std::int64_t workspace = 0;  // bytes
  bool adds_bias = false;      // in the same kernel
  auto operator<=>(const ChosenConvolution&) const = default;  // NOLINT(modernize-use-nullptr): as in extent.h
};

class ConvolutionKernels {
 public:
  virtual ~ConvolutionKernels() = default;

  virtual ConvolutionNeeds convolution_needs(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) const = 0;
  /// Plain weight -> the layout of `part`.
  virtual void pack_weight(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& weight,
                           Tensor& packed) const = 0;
  /// `weight` is packed for the part if its needs say so. `bias` [out] is added before the sums are rounded to y's type
  /// where the library can, else after; undefined: none. `workspace` is undefined if none is needed.
  virtual void convolution_forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                                   const Tensor& bias, Tensor& y, Tensor& workspace) const = 0;
  virtual void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                                          Tensor& dx, Tensor& workspace) const = 0;
  /// dweight is plain; `packed` has needs.packed_weight bytes (undefined if 0). `adds`, only where the needs say so: to
  /// what dweight holds, with the bits that adding the gradient afterwards would give.
  virtual void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy, bool adds,
                                           Tensor& dweight, Tensor& packed, Tensor& workspace) const = 0;
  /// What was chosen so far, in ascending order: on cuda only, else nothing.
  virtual std::vector<ChosenConvolution> chosen_convolutions() const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class ConvolutionKernelsOn final : public ConvolutionKernels {
 public:
  explicit ConvolutionKernelsOn(Context& context) : context_(context) {}

  ConvolutionNeeds convolution_needs(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) const override;
  void pack_weight(const ConvolutionGeometry& g, ConvolutionPart part, const Tensor& weight,
                   Tensor& packed) const override;
  void convolution_forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           Tensor& y, Tensor& workspace) const override;
  void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, Tensor& dx,
                                  Tensor& workspace) const override;
  void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& dy, bool adds,
                                   Tensor& dweight, Tensor& packed, Tensor& workspace) const override;
  std::vector<ChosenConvolution> chosen_convolutions() const override;

 private:
  Context& context_;
};

}  // namespace heddle
