#include "framework/backends/cpu/needs.h"

#include "framework/backends/cpu/primitives.h"

namespace heddle::cpu {

struct Needs::State {
  explicit State(int threads) : onednn(threads) {}
  OneDnn onednn;
  GemmPrimitives gemms{onednn};
  ConvolutionPrimitives convolutions{onednn};
};

Needs::Needs(int threads) : state_(std::make_unique<State>(threads)) {}
Needs::~Needs() = default;

ConvolutionNeeds Needs::convolution(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) {
  return convolution_needs(state_->convolutions, g, part, dtype);
}

std::int64_t Needs::gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
                         double alpha, double beta, DType dtype) {
  return gemm_needs(state_->gemms, {m, n, k, transpose_a, transpose_b, alpha, beta}, dtype);
}

}  // namespace heddle::cpu
