#include "framework/backends/cpu/linear_algebra/primitives.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "framework/backends/cpu/linear_algebra/padded_product.h"
#include "framework/backends/cpu/linear_algebra/tile_product.h"
#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

bool has_instructions(dnnl::cpu_isa all, dnnl::cpu_isa wanted) {
  // A set of bits: each instruction set has those of its predecessors.
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(all) & bits) == bits;
}

bool is_bf16_fast(dnnl::cpu_isa instructions, bool is_amd) {
  return has_instructions(instructions, dnnl::cpu_isa::avx512_core_amx) ||
         (is_amd && has_instructions(instructions, dnnl::cpu_isa::avx512_core_bf16));
}

bool is_bf16_fast() {
  return is_bf16_fast(dnnl::get_effective_cpu_isa(), __builtin_cpu_is("amd") != 0);
}

namespace {

using Dims = dnnl::memory::dims;

std::optional<GemmPrimitive> make_gemm(const OneDnn& onednn, const GemmShape& s, GemmTypes types) {
  if (onednn_type(types.operands) == dnnl::memory::data_type::undef) return {};
  if (std::max({s.m, s.n, s.k}) > std::numeric_limits<std::int32_t>::max()) return {};  // oneDNN counts in 32 bits
  GemmPrimitive made;
  const std::int64_t padding = s.is_padded ? gemm_padding : 0;
  const auto rows_of = [padding](std::int64_t rows, std::int64_t columns, bool transpose) {
    return transpose ? Dims{1, rows + padding} : Dims{columns + padding, 1};
  };
  made.a = strided({s.m, s.k}, types.operands, rows_of(s.m, s.k, s.transpose_a));
  made.b = strided({s.k, s.n}, types.operands, rows_of(s.k, s.n, s.transpose_b));
  made.c = strided({s.m, s.n}, types.result, {s.n, 1});
  const ThreadTeam team(onednn.threads());
  dnnl::primitive_attr attr = user_scratchpad();
  if (s.packs_b) {
    // The same for every beta: asked of the product without one.
    const dnnl::memory::desc any({s.k, s.n}, onednn_type(types.operands), dnnl::memory::format_tag::any);
    const auto best = find_primitive<dnnl::matmul>(onednn.engine(), attr, made.a, any, made.c);
    if (!best) return {};
    made.b = best.weights_desc();
  }
  dnnl::post_ops operations;
  if (s.alpha != 1) append_scale(operations, static_cast<float>(s.alpha));
  if (s.beta != 0) operations.append_sum(static_cast<float>(s.beta));
  attr.set_post_ops(operations);
  const auto found = find_primitive<dnnl::matmul>(onednn.engine(), attr, made.a, made.b, made.c);
  if (!found) return {};
  made.primitive = dnnl::matmul(found);
  made.scratch = found.scratchpad_desc();
  made.scratch_bytes = static_cast<std::int64_t>(made.scratch.get_size());
  return made;
}

}  // namespace

void GemmPrimitive::run(const OneDnn& onednn, const void* a_data, const void* b_data, void* c_data,
                        void* scratch_data) const {
  onednn.run(primitive, {{DNNL_ARG_SRC, onednn.memory(a, a_data)},
                         {DNNL_ARG_WEIGHTS, onednn.memory(b, b_data)},
                         {DNNL_ARG_DST, onednn.memory(c, c_data)},
                         {DNNL_ARG_SCRATCHPAD, onednn.memory(scratch, scratch_data)}});
}

std::size_t GemmPrimitives::Hash::operator()(const Key& key) const {
  const GemmShape& s = key.shape;
  return hash_of({s.m, s.n, s.k,
                  (s.transpose_a ? 1 : 0) + (s.transpose_b ? 2 : 0) + (s.packs_b ? 4 : 0) + (s.is_padded ? 8 : 0),
                  std::bit_cast<std::int64_t>(s.alpha), std::bit_cast<std::int64_t>(s.beta),
                  static_cast<std::int64_t>(key.types.operands), static_cast<std::int64_t>(key.types.result)});
}

const GemmPrimitive* GemmPrimitives::find(const GemmShape& shape, GemmTypes types) {
  const Key key{shape, types};
  auto place = cache_.find(key);
  if (place == cache_.end()) place = cache_.emplace(key, make_gemm(onednn_, shape, types)).first;
  return place->second ? &*place->second : nullptr;
}

std::int64_t gemm_needs(GemmPrimitives& primitives, const GemmShape& s, GemmTypes types) {
  if (s.m == 0 || s.n == 0 || s.k == 0) return 0;
  if (is_faster_on_tiles(s, types)) return tile_needs(s);
  if (is_faster_padded(s, types)) return padded_needs(primitives, s);
  const GemmPrimitive* found = primitives.find(s, types);
  if (!is_widened(types.operands, found != nullptr)) return found != nullptr ? found->scratch_bytes : 0;
  found = primitives.find(s, gemm_f32);
  const std::int64_t wide_result = types.result == DType::f32 ? 0 : aligned(4 * s.m * s.n);
  return aligned(4 * s.m * s.k) + aligned(4 * s.k * s.n) + wide_result + (found != nullptr ? found->scratch_bytes : 0);
}

std::int64_t packed_needs(GemmPrimitives& primitives, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  if (dtype != DType::f32 || m == 0 || n == 0 || k == 0) return 0;
  if (is_faster_on_tiles({.m = m, .n = n, .k = k, .packs_b = true}, gemm_f32)) return packed_tile_bytes(n, k);
  const GemmPrimitive* const packed = primitives.find({.m = m, .n = n, .k = k, .packs_b = true}, gemm_f32);
  const GemmPrimitive* const plain = primitives.find({.m = m, .n = n, .k = k}, gemm_f32);
  if (packed == nullptr || plain == nullptr || packed->b == plain->b) return 0;
  return static_cast<std::int64_t>(packed->b.get_size());
}

}  // namespace heddle::cpu
