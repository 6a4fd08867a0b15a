// cublasLt's matrix products, each chosen once per case. f32 is multiplied in f32, or if it is asked for in TF32;
// 16-bit types are summed in f32. A bias is added in the product's epilogue where the library has one. Sums that the
// library splits into parts are added in their order, so that the same product has the same bits every time.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include <cublasLt.h>

#include "framework/backends/cuda/context.h"
#include "framework/kernels/linear_algebra.h"

namespace heddle::cuda {

/// A product as it is known to the cache.
struct ProductCase {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool transpose_a;
  bool transpose_b;
  DType operands;
  DType result;
  std::array<std::uint32_t, 4> alignment;  // bytes, of a, b, c and the bias; 0: there is none
  auto operator<=>(const ProductCase&) const = default;
  bool has_bias() const { return alignment[3] != 0; }
};

/// A case in the words of the library.
struct CublasProduct {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t left;
  cublasLtMatrixLayoutOpaque_t right;
  cublasLtMatrixLayoutOpaque_t result;
  cublasLtMatmulAlgo_t algorithm;
};

/// The library, and memory that its products may use. This is not metered: it is the same for every rank.
class CublasLibrary {
 public:
  static constexpr std::uint64_t workspace_bytes = std::uint64_t{32} << 20;

  CublasLibrary();
  ~CublasLibrary();
  CublasLibrary(const CublasLibrary&) = delete;
  CublasLibrary& operator=(const CublasLibrary&) = delete;

  cublasLtHandle_t handle() const { return handle_; }
  void* workspace() const { return workspace_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

class CublasProducts {
 public:
  explicit CublasProducts(const Context& context) : context_(context) {}

  /// c, of at least one element, becomes the product, whose k is not 0. Returns whether the bias, if there is one, was
  /// added too.
  bool multiply(const MatrixProduct& p, Tensor& c);

 private:
  /// Null if the library has none.
  CublasProduct* find(const ProductCase& c);
  template <class Scale>
  void run(CublasProduct& product, const Tensor& a, const Tensor& b, Scale alpha, Scale beta, Tensor& c) const;

  const Context& context_;
  std::optional<CublasLibrary> library_;  // from the first product on
  std::map<ProductCase, std::optional<CublasProduct>> products_;
};

}  // namespace heddle::cuda
