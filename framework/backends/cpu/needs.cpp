#include "framework/kernels/needs.h"

#include "framework/backends/cpu/attention/scratch.h"
#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/convolution/primitives.h"
#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle {

namespace cpu {

namespace {

/// oneDNN's needs for a given size of the thread team. Answers are cached; one object per rank, not thread-safe.
class Needs final : public KernelNeeds {
 public:
  Needs(int threads, bool winograd) : context_(threads, winograd) {}

  ConvolutionNeeds convolution(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) override {
    return convolution_needs(context_.convolutions(), g, part, dtype);
  }
  std::int64_t gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b, double alpha,
                    double beta, DType dtype, DType result) override {
    return gemm_needs(context_.gemms(), {m, n, k, transpose_a, transpose_b, alpha, beta}, {dtype, result});
  }
  std::int64_t packed_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double beta, DType dtype) override {
    return gemm_needs(context_.gemms(), {.m = m, .n = n, .k = k, .beta = beta, .packs_b = true}, {dtype, dtype});
  }
  std::int64_t packed(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) override {
    return packed_needs(context_.gemms(), m, n, k, dtype);
  }
  std::int64_t attention(const Shape& qkv, DType dtype, AttentionPass pass) override {
    return attention_needs(context_.threads(), qkv, dtype, pass);
  }
  bool is_bf16_fast() const override { return cpu::is_bf16_fast(); }

 private:
  Context context_;
};

}  // namespace

}  // namespace cpu

std::shared_ptr<KernelNeeds> make_cpu_needs(int threads, bool winograd) {
  return std::make_shared<cpu::Needs>(threads, winograd);
}

}  // namespace heddle
