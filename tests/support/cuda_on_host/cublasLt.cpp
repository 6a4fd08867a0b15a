#include "tests/support/cuda_on_host/cublasLt.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "framework/backends/cuda/device/cublas_lt.h"
#include "framework/tensors/dtype.h"
#include "tests/support/cuda_on_host/tf32.h"

struct cublasLtContext {};

namespace {

using heddle::BFloat16;
using heddle::Float16;

/// What the opaque descriptors hold; `magic` shows whether they were initialised.
constexpr std::uint64_t layout_magic = 0x6C61796F;
constexpr std::uint64_t operation_magic = 0x6F706572;
constexpr std::uint64_t preference_magic = 0x70726566;
constexpr std::uint64_t algorithm_magic = 0x616C676F;

struct Layout {
  std::uint64_t magic = layout_magic;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading_dimension = 0;
  cudaDataType_t type{};
  bool operator==(const Layout&) const = default;
};

struct Operation {
  std::uint64_t magic = operation_magic;
  cublasComputeType_t compute{};
  cudaDataType_t scale{};
  bool transpose_a = false;
  bool transpose_b = false;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uintptr_t bias = 0;
};

struct Preference {
  std::uint64_t magic = preference_magic;
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
  std::uint32_t reductions = 7;
};

struct Algorithm {
  std::uint64_t magic = algorithm_magic;
  std::uint64_t workspace = 0;
  std::uint64_t alignment = 1;
  std::uint64_t shape[3] = {};
  std::uint64_t bias_alignment = 0;  // 0: for products without one
};

template <class Value, class Opaque>
Value read(const Opaque* opaque) {
  static_assert(sizeof(Value) <= sizeof(Opaque));
  Value value;
  if (opaque == nullptr) {
    value.magic = 0;
    return value;
  }
  std::memcpy(static_cast<void*>(&value), opaque, sizeof(Value));
  return value;
}

template <class Value, class Opaque>
cublasStatus_t write(const Value& value, Opaque* opaque) {
  static_assert(sizeof(Value) <= sizeof(Opaque));
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(opaque, &value, sizeof(Value));
  return CUBLAS_STATUS_SUCCESS;
}

bool is_aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

std::uint64_t alignment_of(std::uintptr_t address) {
  return address & (~address + 1);
}

struct Product {
  Operation operation;
  Layout a, b, c, d;
  std::uint64_t m() const { return d.rows; }
  std::uint64_t n() const { return d.columns; }
  std::uint64_t k() const { return operation.transpose_a ? a.rows : a.columns; }

  bool is_initialised() const {
    return operation.magic == operation_magic && a.magic == layout_magic && b.magic == layout_magic &&
           c.magic == layout_magic && d.magic == layout_magic;
  }
  cublasStatus_t check() const {
    if (!is_initialised()) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Layout& layout : {a, b, c, d}) {
      if (layout.rows == 0 || layout.columns == 0 ||
          layout.leading_dimension < static_cast<std::int64_t>(std::max<std::uint64_t>(1, layout.rows)))
        return CUBLAS_STATUS_INVALID_VALUE;
      constexpr std::uint64_t max_side = std::numeric_limits<std::int32_t>::max();
      if (layout.rows > max_side || layout.columns > max_side) return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (!(c == d) || (operation.transpose_a ? a.columns : a.rows) != m() ||
        (operation.transpose_b ? b.rows : b.columns) != n() || (operation.transpose_b ? b.columns : b.rows) != k())
      return CUBLAS_STATUS_INVALID_VALUE;
    if (a.type != b.type) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool is_wide = a.type == CUDA_R_64F;
    const bool is_tf32 = a.type == CUDA_R_32F && operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((!is_tf32 && operation.compute != (is_wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F)) ||
        operation.scale != (is_wide ? CUDA_R_64F : CUDA_R_32F))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool is_narrow = a.type == CUDA_R_16F || a.type == CUDA_R_16BF;
    if (d.type != a.type && !(is_narrow && d.type == CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!has_bias()) return CUBLAS_STATUS_SUCCESS;
    // An address is read before the bias is: its alignment decides.
    if (operation.bias == 0) return CUBLAS_STATUS_INVALID_VALUE;
    return is_wide ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  bool has_bias() const { return operation.epilogue == CUBLASLT_EPILOGUE_BIAS; }
};

template <class F>
void visit(cudaDataType_t type, F&& f) {
  switch (type) {
    case CUDA_R_64F:
      return f(double{});
    case CUDA_R_32F:
      return f(float{});
    case CUDA_R_16F:
      return f(Float16{});
    case CUDA_R_16BF:
      return f(BFloat16{});
  }
}

/// op(matrix), its columns one after the other.
template <class Sum, class T>
std::vector<Sum> unpacked(const Layout& layout, bool transpose, const T* from) {
  std::vector<Sum> values(layout.rows * layout.columns);
  for (std::uint64_t column = 0; column < layout.columns; ++column)
    for (std::uint64_t row = 0; row < layout.rows; ++row)
      values[transpose ? row * layout.columns + column : column * layout.rows + row] =
          static_cast<Sum>(from[column * static_cast<std::uint64_t>(layout.leading_dimension) + row]);
  return values;
}

template <class Sum, class In, class Out>
void multiply(const Product& p, Sum alpha, const In* a, const In* b, Sum beta, const Out* bias, Out* d) {
  const std::uint64_t m = p.m();
  const std::uint64_t k = p.k();
  std::vector<Sum> left = unpacked<Sum>(p.a, p.operation.transpose_a, a);   // columns of m
  std::vector<Sum> right = unpacked<Sum>(p.b, p.operation.transpose_b, b);  // columns of k
  if constexpr (std::is_same_v<In, float>)
    if (p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
      for (std::vector<Sum>* const operand : {&left, &right})
        std::transform(operand->begin(), operand->end(), operand->begin(), to_tf32);
  std::vector<Sum> sums(m);
  for (std::uint64_t column = 0; column < p.n(); ++column) {
    std::fill(sums.begin(), sums.end(), Sum{0});
    for (std::uint64_t l = 0; l < k; ++l) {
      const Sum factor = right[column * k + l];
      const Sum* const from = left.data() + l * m;
      Sum* const to = sums.data();
      for (std::uint64_t row = 0; row < m; ++row) to[row] += factor * from[row];
    }
    Out* const to = d + column * static_cast<std::uint64_t>(p.d.leading_dimension);
    for (std::uint64_t row = 0; row < m; ++row) {
      Sum sum = alpha * sums[row];
      if (beta != 0) sum += beta * static_cast<Sum>(to[row]);
      if (bias != nullptr) sum += static_cast<Sum>(bias[row]);
      to[row] = static_cast<Out>(sum);
    }
  }
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an invalid value, or an unsupported one";
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  count_call(&CallsOnHost::device_wide);
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t type, std::uint64_t rows,
                                        std::uint64_t columns, std::int64_t leading_dimension) {
  return write(Layout{.rows = rows, .columns = columns, .leading_dimension = leading_dimension, .type = type}, layout);
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t operation, cublasComputeType_t compute,
                                      cudaDataType_t scale) {
  return write(Operation{.compute = compute, .scale = scale}, operation);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  Operation changed = read<Operation>(operation);
  const std::size_t size = attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(changed.bias) : sizeof(std::int32_t);
  if (changed.magic != operation_magic || value == nullptr || bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  std::int32_t number = 0;
  std::memcpy(attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? static_cast<void*>(&changed.bias) : &number, value,
              bytes);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
      if (number != CUBLAS_OP_N && number != CUBLAS_OP_T) return CUBLAS_STATUS_INVALID_VALUE;
      (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? changed.transpose_a : changed.transpose_b) = number == CUBLAS_OP_T;
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      if (number != CUBLASLT_EPILOGUE_DEFAULT && number != CUBLASLT_EPILOGUE_BIAS) return CUBLAS_STATUS_INVALID_VALUE;
      changed.epilogue = static_cast<std::uint32_t>(number);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      break;
  }
  return write(changed, operation);
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  return write(Preference{}, preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  Preference changed = read<Preference>(preference);
  if (changed.magic != preference_magic || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  void* to = nullptr;
  std::size_t wanted = sizeof(std::uint32_t);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    to = &changed.workspace;
    wanted = sizeof(changed.workspace);
  } else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    to = &changed.reductions;
  } else {
    to = &changed.alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
  }
  if (bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return write(changed, preference);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* returned) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Preference wanted = read<Preference>(preference);
  const Product product{read<Operation>(operation), read<Layout>(a), read<Layout>(b), read<Layout>(c), read<Layout>(d)};
  if (wanted.magic != preference_magic || requested < 1 || results == nullptr || returned == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  const cublasStatus_t status = product.check();
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  constexpr std::uint64_t word = 4;
  const std::uint64_t bias_alignment = product.has_bias() ? alignment_of(product.operation.bias) : 0;
  if (product.has_bias() && bias_alignment < word) return CUBLAS_STATUS_SUCCESS;
  constexpr std::uint64_t long_sum = 128;
  const bool splits = product.k() >= long_sum && (wanted.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  Algorithm algorithm{
      .workspace = splits ? std::min<std::uint64_t>(wanted.workspace, 4 * product.m() * product.n()) : 0,
      .alignment = *std::min_element(std::begin(wanted.alignment), std::end(wanted.alignment)),
      .shape = {product.m(), product.n(), product.k()},
      .bias_alignment = bias_alignment};
  results[0] = {};
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *returned = 1;
  return write(algorithm, &results[0].algo);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Product product{read<Operation>(operation), read<Layout>(a_layout), read<Layout>(b_layout),
                        read<Layout>(c_layout), read<Layout>(d_layout)};
  const cublasStatus_t status = product.check();
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm chosen = read<Algorithm>(algorithm);
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || c != d || d == nullptr ||
      stream == nullptr || chosen.magic != algorithm_magic || chosen.shape[0] != product.m() ||
      chosen.shape[1] != product.n() || chosen.shape[2] != product.k() ||
      (chosen.bias_alignment != 0) != product.has_bias())
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto* const bias = reinterpret_cast<const void*>(product.has_bias() ? product.operation.bias : 0);
  if (bias != nullptr && !is_aligned(bias, chosen.bias_alignment)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_aligned(a, chosen.alignment) || !is_aligned(b, chosen.alignment) || !is_aligned(d, chosen.alignment))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (chosen.workspace > 0 &&
      (workspace == nullptr || workspace_bytes < chosen.workspace || !is_aligned(workspace, 256)))
    return CUBLAS_STATUS_INVALID_VALUE;
  count_call(&CallsOnHost::products);
  visit(product.a.type, [&]<class In>(In) {
    visit(product.d.type, [&]<class Out>(Out) {
      using Sum = heddle::Compute<In>;
      if constexpr (std::is_same_v<In, Out> || (sizeof(In) == 2 && std::is_same_v<Out, float>))
        put_on(stream, [product, a, b, d, bias, factor = *static_cast<const Sum*>(alpha),
                        kept = *static_cast<const Sum*>(beta), workspace, bytes = chosen.workspace] {
          if (bytes > 0) std::memset(workspace, 0xFF, bytes);
          multiply(product, factor, static_cast<const In*>(a), static_cast<const In*>(b), kept,
                   static_cast<const Out*>(bias), static_cast<Out*>(d));
        });
    });
  });
  return CUBLAS_STATUS_SUCCESS;
}

namespace heddle::cuda {

void open_cublas_lt() {}

}  // namespace heddle::cuda
