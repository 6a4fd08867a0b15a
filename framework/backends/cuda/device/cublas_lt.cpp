// cublasLt, opened when it is first called: a program that is linked to it takes 200 MB and a tenth of a second more,
// whatever it computes on. The functions here have the library's names and pass their arguments on.
#include "framework/backends/cuda/device/cublas_lt.h"

#include <string>

#include <cublasLt.h>
#include <dlfcn.h>

#include "framework/error.h"

namespace heddle::cuda {

namespace {

void* library() {
  static void* const opened = [] {
    const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
    std::string why;
    for (const std::string& file : {name, HEDDLE_CUDA_LIBRARIES "/" + name}) {
      if (void* const found = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
      why += fmt::format("{}{}", why.empty() ? "" : "; ", dlerror());
    }
    fail<InputError>("device cuda: {}", why);
  }();
  return opened;
}

template <class Function>
Function* function(const char* name) {
  if (void* const found = dlsym(library(), name)) return reinterpret_cast<Function*>(found);
  fail<InputError>("device cuda: cublasLt lacks {}", name);
}

}  // namespace

void open_cublas_lt() {
  (void)library();
}

}  // namespace heddle::cuda

#define HEDDLE_HAND_ON(name, ...)                                            \
  static auto* const handed = heddle::cuda::function<decltype(name)>(#name); \
  return handed(__VA_ARGS__)

const char* cublasLtGetStatusName(cublasStatus_t status) {
  HEDDLE_HAND_ON(cublasLtGetStatusName, status);
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  HEDDLE_HAND_ON(cublasLtGetStatusString, status);
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  HEDDLE_HAND_ON(cublasLtCreate, handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  HEDDLE_HAND_ON(cublasLtDestroy, handle);
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t size, cudaDataType type,
                                                 std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
  HEDDLE_HAND_ON(cublasLtMatrixLayoutInit_internal, layout, size, type, rows, columns, stride);
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, std::size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  HEDDLE_HAND_ON(cublasLtMatmulDescInit_internal, operation, size, compute, scale);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  HEDDLE_HAND_ON(cublasLtMatmulDescSetAttribute, operation, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, std::size_t size) {
  HEDDLE_HAND_ON(cublasLtMatmulPreferenceInit_internal, preference, size);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  HEDDLE_HAND_ON(cublasLtMatmulPreferenceSetAttribute, preference, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[], int* given) {
  HEDDLE_HAND_ON(cublasLtMatmulAlgoGetHeuristic, handle, operation, a, b, c, d, preference, asked, results, given);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  HEDDLE_HAND_ON(cublasLtMatmul, handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                 algorithm, workspace, workspace_bytes, stream);
}
