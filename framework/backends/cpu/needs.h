// What the cpu kernels need besides their tensors, asked of oneDNN for a given size of the thread team without
// computing anything: the plan backend charges the same bytes. Answers are cached; one object a rank, not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/kernels/convolution.h"

namespace heddle::cpu {

/// Whether this machine multiplies whole tiles of bf16 (AMX), some eight times as fast as f32.
bool is_bf16_fast();

class Needs {
 public:
  explicit Needs(int threads, bool winograd = false);
  ~Needs();

  ConvolutionNeeds convolution(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype);
  /// [m, k] * [k, n] of one dtype, each operand stored transposed if so marked, into another or the same.
  std::int64_t gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b, double alpha,
                    double beta, DType dtype, DType result);
  /// The same with a packed right operand, and that operand itself: m rows on the left.
  std::int64_t packed_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double beta, DType dtype);
  std::int64_t packed(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::cpu
