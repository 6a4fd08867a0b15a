// Matrix products.
#pragma once

#include <optional>

#include "framework/tensors/tensor.h"

namespace heddle {

/// alpha * op(a) * op(b) + beta * c + bias, where op transposes if asked. Both matrices have one floating dtype.
struct MatrixProduct {
  Tensor a;  // [m, k], or [k, m] transposed
  bool transpose_a = false;
  Tensor b;  // [k, n], or [n, k] transposed
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;  // 0: c is not read
  Tensor bias{};    // [n], of c's type, added to every row; undefined: none

  std::int64_t k() const { return a.shape()[transpose_a ? 0 : 1]; }
};

class LinearAlgebraKernels {
 public:
  virtual ~LinearAlgebraKernels() = default;

  /// c [m, n] becomes the product. 16-bit types are summed in f32, and may leave their sums in a c of f32. The bias is
  /// added before the sums are rounded to c's type where the library can (an epilogue of the product), else after.
  /// `workspace`: see gemm_workspace; undefined if 0 bytes.
  virtual void gemm(const MatrixProduct& product, Tensor& c, Tensor& workspace) const = 0;
  /// Bytes that this product needs.
  virtual std::int64_t gemm_workspace(const MatrixProduct& product, const Tensor& c) const = 0;
  /// Whether bf16 products take much less time here than f32's, by what the processor can do.
  virtual bool is_bf16_fast() const = 0;
  /// The seconds that products have taken so far; nothing where the host does not wait for them.
  virtual std::optional<double> product_seconds() const = 0;

  // A right operand that many products with m rows on the left share, in the layout in which they read it fastest.

  /// Bytes of op(b) in that layout; 0: there is none better than its own.
  virtual std::int64_t packed_bytes(std::int64_t m, const Tensor& b, bool transpose_b) const = 0;
  virtual void pack(std::int64_t m, const Tensor& b, bool transpose_b, Tensor& packed) const = 0;
  /// c [m, n] = a [m, k] * op(b) + beta * c.
  virtual void packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c, Tensor& workspace) const = 0;
  virtual std::int64_t packed_gemm_workspace(const Tensor& a, double beta, const Tensor& c) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class LinearAlgebraKernelsOn final : public LinearAlgebraKernels {
 public:
  explicit LinearAlgebraKernelsOn(Context& context) : context_(context) {}

  void gemm(const MatrixProduct& product, Tensor& c, Tensor& workspace) const override;
  std::int64_t gemm_workspace(const MatrixProduct& product, const Tensor& c) const override;
  bool is_bf16_fast() const override;
  std::optional<double> product_seconds() const override;
  std::int64_t packed_bytes(std::int64_t m, const Tensor& b, bool transpose_b) const override;
  void pack(std::int64_t m, const Tensor& b, bool transpose_b, Tensor& packed) const override;
  void packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c, Tensor& workspace) const override;
  std::int64_t packed_gemm_workspace(const Tensor& a, double beta, const Tensor& c) const override;

 private:
  Context& context_;
};

}  // namespace heddle
