#include "framework/backends/cpu/needs.h"

#include "framework/backends/cpu/primitives.h"

namespace heddle::cpu {

bool is_bf16_fast() {
  // A set of bits: each instruction set has those of its predecessors.
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

struct Needs::State {
  State(int threads, bool winograd) : onednn(threads), convolutions(onednn, winograd) {}
  OneDnn onednn;
  GemmPrimitives gemms{onednn};
  ConvolutionPrimitives convolutions;
};

Needs::Needs(int threads, bool winograd) : state_(std::make_unique<State>(threads, winograd)) {}
Needs::~Needs() = default;

ConvolutionNeeds Needs::convolution(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) {
  return convolution_needs(state_->convolutions, g, part, dtype);
}

std::int64_t Needs::gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
                         double alpha, double beta, DType dtype, DType result) {
  return gemm_needs(state_->gemms, {m, n, k, transpose_a, transpose_b, alpha, beta}, {dtype, result});
}

std::int64_t Needs::packed_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double beta, DType dtype) {
  return gemm_needs(state_->gemms, {.m = m, .n = n, .k = k, .beta = beta, .packs_b = true}, {dtype, dtype});
}

std::int64_t Needs::packed(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  return packed_needs(state_->gemms, m, n, k, dtype);
}

}  // namespace heddle::cpu
