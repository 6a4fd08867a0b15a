// Matrix products by cublasLt. A bias is added by a kernel of its own where the library has no epilogue that would.
#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/backends/cuda/elementwise/bias.h"
#include "framework/backends/cuda/linear_algebra/cublas_products.h"
#include "framework/kernels/linear_algebra.h"

namespace heddle::cuda {

namespace {

template <class T>
void scale_as(const Context& context, Compute<T> beta, Tensor& c) {
  map(
      context, c.numel(), c.as<T>(), [=] __device__(Compute<T> value) { return beta * value; }, c.as<const T>());
}

/// c = beta * c: a product over nothing adds nothing.
void scale(const Context& context, double beta, Tensor& c) {
  if (beta == 0) {
    check(cudaMemsetAsync(c.data(), 0, static_cast<std::size_t>(c.bytes()), context.stream()), "cudaMemsetAsync");
    return;
  }
  visit_floating(c.dtype(), "gemm", [&]<class T>(T) { scale_as<T>(context, static_cast<Compute<T>>(beta), c); });
}

}  // namespace

}  // namespace heddle::cuda

namespace heddle {

template <>
void LinearAlgebraKernelsOn<cuda::Context>::gemm(const MatrixProduct& product, Tensor& c, Tensor& /*workspace*/) const {
  if (c.numel() == 0) return;
  bool adds_bias = false;
  if (product.k() == 0)
    cuda::scale(context_, product.beta, c);
  else
    adds_bias = context_.products().multiply(product, c);
  if (product.bias.defined() && !adds_bias) cuda::add_bias(context_, product.bias, c);
}

template <>
std::int64_t LinearAlgebraKernelsOn<cuda::Context>::gemm_workspace(const MatrixProduct& /*product*/,
                                                                   const Tensor& /*c*/) const {
  return 0;  // all products share the library's workspace
}

template <>
bool LinearAlgebraKernelsOn<cuda::Context>::is_bf16_fast() const {
  return true;
}

template <>
std::optional<double> LinearAlgebraKernelsOn<cuda::Context>::product_seconds() const {
  return {};
}

// The library reads every operand where it lies.
template <>
std::int64_t LinearAlgebraKernelsOn<cuda::Context>::packed_bytes(std::int64_t /*m*/, const Tensor& /*b*/,
                                                                 bool /*transpose_b*/) const {
  return 0;
}

template <>
void LinearAlgebraKernelsOn<cuda::Context>::pack(std::int64_t /*m*/, const Tensor& b, bool /*transpose_b*/,
                                                 Tensor& /*packed*/) const {
  fail("gemm: cuda has no layout into which {} could be packed", to_string(b));
}

template <>
void LinearAlgebraKernelsOn<cuda::Context>::packed_gemm(const Tensor& a, const Tensor& /*packed*/, double /*beta*/,
                                                        Tensor& /*c*/, Tensor& /*workspace*/) const {
  fail("gemm: cuda has no product of {} with a packed operand", to_string(a));
}

template <>
std::int64_t LinearAlgebraKernelsOn<cuda::Context>::packed_gemm_workspace(const Tensor& /*a*/, double /*beta*/,
                                                                          const Tensor& /*c*/) const {
  return 0;
}

}  // namespace heddle
