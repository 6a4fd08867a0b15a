// Matrix products by cublasLt. f32 is multiplied in f32, or if it is asked for in TF32; 16-bit types are summed in f32.
// A bias is added in the product's epilogue, or by a kernel of its own where the library has none that would.
// Sums that the library splits into parts are added in their order, so that the same product has the same bits every
// time.
#include <array>
#include <map>
#include <optional>

#include <cublasLt.h>

#include "framework/backends/cuda/cuda_kernels.h"
#include "framework/backends/cuda/device/launch.cuh"
#include "framework/backends/cuda/elementwise/elementwise.h"

namespace heddle::cuda {

namespace {

void check(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) fail<OutOfMemory>("cuda: {}: {}", call, cublasLtGetStatusString(status));
  fail("cuda: {}: {} ({})", call, cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

/// The library, and memory that its products may use. This is not metered: it is the same for every rank.
class Library {
 public:
  static constexpr std::uint64_t workspace_bytes = std::uint64_t{32} << 20;

  Library() {
    cuda::check(cudaMalloc(&workspace_, workspace_bytes), "cudaMalloc");
    const cublasStatus_t status = cublasLtCreate(&handle_);
    if (status != CUBLAS_STATUS_SUCCESS) (void)cudaFree(workspace_);
    check(status, "cublasLtCreate");
  }
  ~Library() {
    (void)cublasLtDestroy(handle_);
    (void)cudaFree(workspace_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  cublasLtHandle_t handle() const { return handle_; }
  void* workspace() const { return workspace_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

/// A product as it is known to the cache.
struct Case {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool transpose_a;
  bool transpose_b;
  DType operands;
  DType result;
  std::array<std::uint32_t, 4> alignment;  // bytes, of a, b, c and the bias; 0: there is none
  auto operator<=>(const Case&) const = default;
  bool has_bias() const { return alignment[3] != 0; }
};

/// What the library needs to be told about a case.
struct Product {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t left;
  cublasLtMatrixLayoutOpaque_t right;
  cublasLtMatrixLayoutOpaque_t result;
  cublasLtMatmulAlgo_t algorithm;
};

cudaDataType_t library_type(DType dtype) {
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
      fail<InputError>("gemm: expected a floating type, got {}", name_of(dtype));
  }
}

/// Up to the 16 bytes that a thread reads at once. More would only make the choice depend on where a view begins.
std::uint32_t alignment_of(const Tensor& x) {
  constexpr std::uintptr_t most = 16;
  const auto address = reinterpret_cast<std::uintptr_t>(x.data());
  return static_cast<std::uint32_t>(std::min(most, address & (~address + 1)));
}

/// A row-major matrix is its transpose to the library, which stores by columns.
void describe(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, std::int64_t rows, std::int64_t columns) {
  check(cublasLtMatrixLayoutInit(&layout, library_type(dtype), static_cast<std::uint64_t>(columns),
                                 static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutInit");
}

template <class Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

cublasComputeType_t library_arithmetic(DType operands, bool tf32) {
  if (operands == DType::f64) return CUBLAS_COMPUTE_64F;
  return tf32 && operands == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// None if the library has no such product.
std::optional<Product> make_product(cublasLtHandle_t handle, const Case& c, bool tf32) {
  Product product{};
  check(cublasLtMatmulDescInit(&product.operation, library_arithmetic(c.operands, tf32),
                               c.operands == DType::f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescInit");
  // The transpose of a * b is that of b times that of a.
  const auto transpose = [](bool transposes) -> std::int32_t { return transposes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose(c.transpose_b));
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose(c.transpose_a));
  if (c.has_bias()) {
    // An element for each of the library's rows, which are our columns. The choice depends on the address; it is given
    // one that has the alignment and nothing more.
    set(product.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS));
    set(product.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<std::uintptr_t>(c.alignment[3]));
  }
  describe(product.left, c.operands, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n);
  describe(product.right, c.operands, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k);
  describe(product.result, c.result, c.m, c.n);

  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Library::workspace_bytes);
  // Parts of a sum in f32, side by side.
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
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  product.algorithm = found.algo;
  return product;
}

template <class T>
void scale_as(const Context& context, Compute<T> beta, Tensor& c) {
  map(
      context, c.numel(), c.as<T>(), [=] __device__(Compute<T> value) { return beta * value; }, c.as<const T>());
}

/// c = beta * c: what is left of a product over nothing.
void scale(const Context& context, double beta, Tensor& c) {
  if (beta == 0) {
    cuda::check(cudaMemsetAsync(c.data(), 0, static_cast<std::size_t>(c.bytes()), context.stream()), "cudaMemsetAsync");
    return;
  }
  visit_floating(c.dtype(), "gemm", [&]<class T>(T) { scale_as<T>(context, static_cast<Compute<T>>(beta), c); });
}

class CudaLinearAlgebra final : public LinearAlgebraKernels {
 public:
  explicit CudaLinearAlgebra(const Context& context) : context_(context) {}

  void gemm(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, double alpha, double beta,
            const Tensor& bias, Tensor& c, Tensor& /*workspace*/) const override {
    if (c.numel() == 0) return;
    const std::int64_t k = a.shape()[transpose_a ? 0 : 1];
    bool adds_bias = false;
    if (k == 0)
      scale(context_, beta, c);
    else
      adds_bias = multiply({.m = c.shape()[0],
                            .n = c.shape()[1],
                            .k = k,
                            .transpose_a = transpose_a,
                            .transpose_b = transpose_b,
                            .operands = a.dtype(),
                            .result = c.dtype(),
                            .alignment = {alignment_of(a), alignment_of(b), alignment_of(c), 0}},
                           a, b, alpha, beta, bias, c);
    if (bias.defined() && !adds_bias) binary(context_, BinaryOp::add, c, bias, c);
  }
  std::int64_t gemm_workspace(const Tensor& /*a*/, bool /*transpose_a*/, const Tensor& /*b*/, bool /*transpose_b*/,
                              double /*alpha*/, double /*beta*/, const Tensor& /*c*/) const override {
    return 0;  // the library's is shared
  }
  bool is_bf16_fast() const override { return true; }

  // The library reads every operand where it lies.
  std::int64_t packed_bytes(std::int64_t /*m*/, const Tensor& /*b*/, bool /*transpose_b*/) const override { return 0; }
  void pack(std::int64_t /*m*/, const Tensor& b, bool /*transpose_b*/, Tensor& /*packed*/) const override {
    fail("gemm: cuda has no layout into which {} could be packed", to_string(b));
  }
  void packed_gemm(const Tensor& a, const Tensor& /*packed*/, double /*beta*/, Tensor& /*c*/,
                   Tensor& /*workspace*/) const override {
    fail("gemm: cuda has no product of {} with a packed operand", to_string(a));
  }
  std::int64_t packed_gemm_workspace(const Tensor& /*a*/, double /*beta*/, const Tensor& /*c*/) const override {
    return 0;
  }

 private:
  /// Whether the bias, if there is one, was added too.
  bool multiply(const Case& plain, const Tensor& a, const Tensor& b, double alpha, double beta, const Tensor& bias,
                Tensor& c) const {
    if (!library_) library_.emplace();
    Product* product = nullptr;
    if (bias.defined() && a.dtype() != DType::f64) {  // in which the library has no epilogues
      Case biased = plain;
      biased.alignment[3] = alignment_of(bias);
      product = find(biased);
    }
    const bool adds_bias = product != nullptr;
    if (adds_bias)
      set(product->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
    else
      product = find(plain);
    if (product == nullptr)
      fail("gemm: cublasLt has no product of {} with {} -> {}", to_string(plain.operands, {plain.m, plain.k}),
           to_string(plain.operands, {plain.k, plain.n}), to_string(plain.result, {plain.m, plain.n}));
    if (a.dtype() == DType::f64)
      run(*product, a, b, alpha, beta, c);
    else
      run(*product, a, b, static_cast<float>(alpha), static_cast<float>(beta), c);
    return adds_bias;
  }

  /// Null if the library has none.
  Product* find(const Case& c) const {
    auto place = products_.find(c);
    if (place == products_.end())
      place = products_.emplace(c, make_product(library_->handle(), c, context_.uses_tf32())).first;
    return place->second ? &*place->second : nullptr;
  }

  template <class Scale>
  void run(Product& product, const Tensor& a, const Tensor& b, Scale alpha, Scale beta, Tensor& c) const {
    check(cublasLtMatmul(library_->handle(), &product.operation, &alpha, b.data(), &product.left, a.data(),
                         &product.right, &beta, c.data(), &product.result, c.data(), &product.result,
                         &product.algorithm, library_->workspace(), Library::workspace_bytes, context_.stream()),
          "cublasLtMatmul");
  }

  const Context& context_;
  mutable std::optional<Library> library_;  // from the first product on
  mutable std::map<Case, std::optional<Product>> products_;
};

}  // namespace

std::unique_ptr<LinearAlgebraKernels> make_cuda_linear_algebra(const Context& context) {
  return std::make_unique<CudaLinearAlgebra>(context);
}

}  // namespace heddle::cuda
