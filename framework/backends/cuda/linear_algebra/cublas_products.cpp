#include "framework/backends/cuda/linear_algebra/cublas_products.h"

#include <algorithm>

namespace heddle::cuda {

namespace {

void check_cublas(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) fail<OutOfMemory>("cuda: {}: {}", call, cublasLtGetStatusString(status));
  fail("cuda: {}: {} ({})", call, cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

cudaDataType_t cublas_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      fail<InputError>("gemm: expected a floating-point type, got {}", name_of(dtype));
  }
}

/// Up to the 16 bytes that a thread reads at once. More would only make the choice depend on where a view begins.
std::uint32_t alignment_of(const Tensor& x) {
  constexpr std::uintptr_t max_alignment = 16;
  const auto address = reinterpret_cast<std::uintptr_t>(x.data());
  return static_cast<std::uint32_t>(std::min(max_alignment, address & (~address + 1)));
}

/// A row-major matrix is its transpose to the library, which stores by columns.
void describe_matrix(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, std::int64_t rows, std::int64_t columns) {
  check_cublas(cublasLtMatrixLayoutInit(&layout, cublas_type(dtype), static_cast<std::uint64_t>(columns),
                                        static_cast<std::uint64_t>(rows), columns),
               "cublasLtMatrixLayoutInit");
}

template <class Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
}

cublasComputeType_t library_arithmetic(DType operands, bool tf32) {
  if (operands == DType::f64) return CUBLAS_COMPUTE_64F;
  return tf32 && operands == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// None if the library has no such product.
std::optional<CublasProduct> make_product(cublasLtHandle_t handle, const ProductCase& c, bool tf32) {
  CublasProduct product{};
  check_cublas(cublasLtMatmulDescInit(&product.operation, library_arithmetic(c.operands, tf32),
                                      c.operands == DType::f64 ? CUDA_R_64F : CUDA_R_32F),
               "cublasLtMatmulDescInit");
  // The transpose of a * b is that of b times that of a.
  const auto transpose = [](bool transposes) -> std::int32_t { return transposes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose(c.transpose_b));
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose(c.transpose_a));
  if (c.has_bias()) {
    // One element per row of the library's matrix, which is our column. The choice depends on the address; it is given
    // one that has the alignment and nothing more.
    set(product.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS));
    set(product.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<std::uintptr_t>(c.alignment[3]));
  }
  describe_matrix(product.left, c.operands, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n);
  describe_matrix(product.right, c.operands, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k);
  describe_matrix(product.result, c.result, c.m, c.n);

  cublasLtMatmulPreferenceOpaque_t preference{};
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CublasLibrary::workspace_bytes);
  // Parts of a sum are kept in f32.
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, c.alignment[1]);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, c.alignment[0]);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c.alignment[2]);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c.alignment[2]);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, &product.operation, &product.left, &product.right, &product.result,
                                     &product.result, &preference, 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return {};
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  product.algorithm = found.algo;
  return product;
}

}  // namespace

CublasLibrary::CublasLibrary() {
  check(cudaMalloc(&workspace_, workspace_bytes), "cudaMalloc");
  const cublasStatus_t status = cublasLtCreate(&handle_);
  if (status != CUBLAS_STATUS_SUCCESS) (void)cudaFree(workspace_);
  check_cublas(status, "cublasLtCreate");
}

CublasLibrary::~CublasLibrary() {
  (void)cublasLtDestroy(handle_);
  (void)cudaFree(workspace_);
}

bool CublasProducts::multiply(const MatrixProduct& p, Tensor& c) {
  const ProductCase plain{.m = c.shape()[0],
                          .n = c.shape()[1],
                          .k = p.k(),
                          .transpose_a = p.transpose_a,
                          .transpose_b = p.transpose_b,
                          .operands = p.a.dtype(),
                          .result = c.dtype(),
                          .alignment = {alignment_of(p.a), alignment_of(p.b), alignment_of(c), 0}};
  if (!library_) library_.emplace();
  CublasProduct* product = nullptr;
  if (p.bias.defined() && p.a.dtype() != DType::f64) {  // in which the library has no epilogues
    ProductCase biased = plain;
    biased.alignment[3] = alignment_of(p.bias);
    product = find(biased);
  }
  const bool adds_bias = product != nullptr;
  if (adds_bias)
    set(product->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data());
  else
    product = find(plain);
  if (product == nullptr)
    fail("gemm: cublasLt has no product of {} with {} -> {}", to_string(plain.operands, {plain.m, plain.k}),
         to_string(plain.operands, {plain.k, plain.n}), to_string(plain.result, {plain.m, plain.n}));
  if (p.a.dtype() == DType::f64)
    run(*product, p.a, p.b, p.alpha, p.beta, c);
  else
    run(*product, p.a, p.b, static_cast<float>(p.alpha), static_cast<float>(p.beta), c);
  return adds_bias;
}

CublasProduct* CublasProducts::find(const ProductCase& c) {
  auto place = products_.find(c);
  if (place == products_.end())
    place = products_.emplace(c, make_product(library_->handle(), c, context_.uses_tf32())).first;
  return place->second ? &*place->second : nullptr;
}

template <class Scale>
void CublasProducts::run(CublasProduct& product, const Tensor& a, const Tensor& b, Scale alpha, Scale beta,
                         Tensor& c) const {
  check_cublas(
      cublasLtMatmul(library_->handle(), &product.operation, &alpha, b.data(), &product.left, a.data(), &product.right,
                     &beta, c.data(), &product.result, c.data(), &product.result, &product.algorithm,
                     library_->workspace(), CublasLibrary::workspace_bytes, context_.stream()),
      "cublasLtMatmul");
}

}  // namespace heddle::cuda
