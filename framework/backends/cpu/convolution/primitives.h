// oneDNN's matrix products and convolutions, made once a shape. Both the kernels, which run them, and the needs that
// plan asks for, hold such caches.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/backends/cpu/convolution/winograd.h"
#include "framework/backends/cpu/onednn/onednn.h"
#include "framework/kernels/convolution.h"

namespace heddle::cpu {

/// [m, k] * [k, n], each operand stored transposed if so marked; the right one, if so marked, as oneDNN reads it
/// fastest.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  bool packs_b = false;
  bool operator==(const GemmShape&) const = default;
};

/// Of both operands, and of the result: the same, or f32 of 16-bit ones.
struct GemmTypes {
  DType operands;
  DType result;
  bool operator==(const GemmTypes&) const = default;
};
inline constexpr GemmTypes gemm_f32{DType::f32, DType::f32};

/// What oneDNN computes a type in: itself, f32 where the machine lacks instructions for a 16-bit one (operands are
/// widened then), or nothing (f64).
struct GemmPrimitive {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, c, scratch;
  std::int64_t scratch_bytes = 0;
};

class GemmPrimitives {
 public:
  explicit GemmPrimitives(const OneDnn& onednn) : onednn_(onednn) {}
  /// Null if oneDNN has no code for it.
  const GemmPrimitive* find(const GemmShape& shape, GemmTypes types);

 private:
  struct Key {
    GemmShape shape;
    GemmTypes types;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  const OneDnn& onednn_;
  std::unordered_map<Key, std::optional<GemmPrimitive>, Hash> cache_;
};

struct ConvolutionPrimitive {
  dnnl::primitive primitive;
  dnnl::memory::desc x, weight, y, scratch;
  std::int64_t scratch_bytes = 0;
  std::int64_t layout = 0;  // number of `weight`'s layout among those met
  bool packs = false;       // `weight` is another layout than the plain one
  dnnl::reorder reorder;    // plain -> weight, or for backward_weight back; only if `packs`
  dnnl::reorder add;        // of backward_weight in f32, only if `packs`: the same, to what is there
  dnnl::memory::desc plain_weight;
};

class ConvolutionPrimitives {
 public:
  /// `winograd`: whether to use it where it fits.
  ConvolutionPrimitives(const OneDnn& onednn, bool winograd) : onednn_(onednn), uses_winograd_(winograd) {}
  /// Null if oneDNN has no fast code for it.
  const ConvolutionPrimitive* find(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype);
  /// Null if it does not fit or is not wanted. Goes before `find`.
  const Winograd* find_winograd(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype);

 private:
  struct Key {
    ConvolutionGeometry geometry;
    ConvolutionPart part;
    DType dtype;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  std::optional<ConvolutionPrimitive> make(const Key& key);
  std::int64_t number_of(const dnnl::memory::desc& layout);
  const OneDnn& onednn_;
  bool uses_winograd_;
  std::unordered_map<Key, std::optional<ConvolutionPrimitive>, Hash> cache_;
  std::unordered_map<Key, std::optional<Winograd>, Hash> winograd_cache_;
  std::vector<dnnl::memory::desc> layouts_;
};

/// Whether this machine multiplies whole tiles of bf16 (AMX), some eight times as fast as f32.
bool is_bf16_fast();

/// Type that a product or convolution of `dtype` is run in, given what oneDNN found for it.
inline bool is_widened(DType dtype, bool found) {
  return !found && (dtype == DType::bf16 || dtype == DType::f16);
}

/// Bytes of workspace for a product on this backend.
std::int64_t gemm_needs(GemmPrimitives& primitives, const GemmShape& shape, GemmTypes types);
/// Of a right operand that is packed for a product with m rows on the left; 0 if its plain layout is as good.
std::int64_t packed_needs(GemmPrimitives& primitives, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype);
ConvolutionNeeds convolution_needs(ConvolutionPrimitives& primitives, const ConvolutionGeometry& g,
                                   ConvolutionPart part, DType dtype);

}  // namespace heddle::cpu
