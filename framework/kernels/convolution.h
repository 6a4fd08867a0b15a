// Convolution, normalisation over channels, and pooling. Images are NHWC; convolution weights are [out, kh, kw,
// in/groups].
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tensors/tensor.h"

namespace heddle {

/// Height and width.
struct Extent {
  std::int64_t height = 1;
  std::int64_t width = 1;
  auto operator<=>(const Extent&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
};

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
  auto operator<=>(const ConvolutionGeometry&) const = default;  // NOLINT(modernize-use-nullptr): as above
  /// No sample, or one side without channels (a rank may hold none of a sharded layer's): nothing is multiplied.
  bool is_empty() const { return batch == 0 || in_channels == 0 || out_channels == 0; }
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
  auto operator<=>(const ChosenConvolution&) const = default;  // NOLINT(modernize-use-nullptr): as above
};

enum class PoolOp { max, average };

struct PoolGeometry {
  std::int64_t batch = 0;
  Extent input;
  Extent output;
  std::int64_t channels = 0;
  Extent kernel;
  Extent stride;
  Extent padding;
  bool count_padding = true;  // average: padded cells count in the divisor
};

enum class NormActivation { none, relu, prelu };

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

  // Normalisation over rows: x is [N, C] (any leading dimensions), statistics and affine parameters are [C] of the
  // compute type (f64 for f64, else f32). Two parts each way, so that sums may be reduced over ranks in between.

  /// moments [2, C]: mean, and sum of squared deviations from it. Same bits for any number of threads.
  virtual void moments(const Tensor& x, Tensor& moments) const = 0;
  /// y = activation(gamma * (x - mean) * inverse_deviation + beta + residual). gamma, beta, residual and slope (for
  /// prelu) may be undefined.
  virtual void normalize(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation, const Tensor& gamma,
                         const Tensor& beta, const Tensor& residual, NormActivation activation, const Tensor& slope,
                         Tensor& y) const = 0;
  /// First part of the way back. y: normalize's output, needed when there was a residual (relu only), else undefined.
  /// sums [3, C]: of g = dy * activation', of g * (x - mean) * inverse_deviation, and for prelu the slope's gradient
  /// (else 0). dresidual, if defined, receives g; it may be dy.
  virtual void normalize_backward_sums(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation,
                                       const Tensor& gamma, const Tensor& beta, NormActivation activation,
                                       const Tensor& slope, const Tensor& y, const Tensor& dy, Tensor& sums,
                                       Tensor& dresidual) const = 0;
  /// dx = gamma * inverse_deviation * (g - sums[0] / count - xhat * sums[1] / count); count = 0: the statistics were
  /// constants (evaluation). If there was a residual, dy is dresidual of the first part and activation none.
  /// dx may be dy.
  virtual void normalize_backward_input(const Tensor& x, const Tensor& mean, const Tensor& inverse_deviation,
                                        const Tensor& gamma, const Tensor& beta, NormActivation activation,
                                        const Tensor& slope, const Tensor& dy, const Tensor& sums, double count,
                                        Tensor& dx) const = 0;

  /// Max keeps the first largest cell's position in `choice` (i32, like y; undefined: not kept). Padding never wins.
  virtual void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const = 0;
  virtual void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                             Tensor& dx) const = 0;
};

}  // namespace heddle
