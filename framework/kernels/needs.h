// What a backend's products and convolutions need besides their tensors, asked without computing anything: the plan
// backend charges the same bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/kernels/attention.h"
#include "framework/kernels/convolution.h"

namespace heddle {

/// The answers here are those of libraries that read every operand where it lies and share one workspace for all calls.
class KernelNeeds {
 public:
  virtual ~KernelNeeds() = default;

  virtual ConvolutionNeeds convolution(const ConvolutionGeometry& /*g*/, ConvolutionPart /*part*/, DType /*dtype*/) {
    return {};
  }
  /// [m, k] * [k, n] of one dtype, each operand stored transposed if so marked, into another or the same.
  virtual std::int64_t gemm(std::int64_t /*m*/, std::int64_t /*n*/, std::int64_t /*k*/, bool /*transpose_a*/,
                            bool /*transpose_b*/, double /*alpha*/, double /*beta*/, DType /*dtype*/,
                            DType /*result*/) {
    return 0;
  }
  /// The same with a packed right operand, and that operand itself: m rows on the left.
  virtual std::int64_t packed_gemm(std::int64_t /*m*/, std::int64_t /*n*/, std::int64_t /*k*/, double /*beta*/,
                                   DType /*dtype*/) {
    return 0;
  }
  virtual std::int64_t packed(std::int64_t /*m*/, std::int64_t /*n*/, std::int64_t /*k*/, DType /*dtype*/) { return 0; }
  /// See AttentionKernels::attention_workspace; here one number for each row of scores, in the backward pass.
  virtual std::int64_t attention(const Shape& qkv, DType dtype, AttentionPass pass) {
    const auto bytes = static_cast<std::int64_t>(size_of(compute_dtype(dtype)));
    return pass == AttentionPass::backward ? qkv[0] * qkv[1] * qkv[2] * bytes : 0;
  }
  /// See LinearAlgebraKernels.
  virtual bool is_bf16_fast() const { return true; }
};

/// The cpu backend's needs with this many threads per rank.
std::shared_ptr<KernelNeeds> make_cpu_needs(int threads, bool winograd);
/// The cuda backend's needs. cuDNN answers only where there is a GPU; without one, convolutions need nothing. Callers
/// at the same time share one object, from any thread.
std::shared_ptr<KernelNeeds> make_cuda_needs(bool tf32);

}  // namespace heddle
