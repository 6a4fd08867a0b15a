// oneDNN's matrix products, each made once per shape. Both the kernels, which run them, and the needs that plan asks
// for hold such a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "framework/backends/cpu/onednn/onednn.h"

namespace heddle::cpu {

/// [m, k] * [k, n], each operand stored transposed if so marked; the right one, if so marked, as oneDNN reads it
/// fastest; both, if so marked, in rows that are `gemm_padding` elements longer.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  bool packs_b = false;
  bool is_padded = false;
  bool operator==(const GemmShape&) const = default;
};

/// One line of the cache.
inline constexpr std::int64_t gemm_padding = 16;

/// The types of both operands and of the result: the same, or f32 for 16-bit operands.
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

  void run(const OneDnn& onednn, const void* a_data, const void* b_data, void* c_data, void* scratch_data) const;
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

/// Whether a processor with `all` these instructions has the wanted ones.
bool has_instructions(dnnl::cpu_isa all, dnnl::cpu_isa wanted);

/// Whether products of bf16 take much less time than those of f32 on a processor with these instructions. AMX
/// multiplies whole tiles, and avx512_bf16 is fast on an AMD processor. On an Intel processor whose AMX is switched
/// off, it is slower than f32 (docs/measurements.md).
bool is_bf16_fast(dnnl::cpu_isa instructions, bool is_amd);
/// The same of this machine.
bool is_bf16_fast();

/// Bytes of workspace for a product on this backend.
std::int64_t gemm_needs(GemmPrimitives& primitives, const GemmShape& shape, GemmTypes types);
/// Bytes of a right operand that is packed for a product with m rows on the left; 0 if its plain layout is as good.
std::int64_t packed_needs(GemmPrimitives& primitives, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype);
}  // namespace heddle::cpu
