#include "framework/backends/cpu/convolution/primitives.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

bool is_bf16_fast() {
  // A set of bits: each instruction set has those of its predecessors.
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

namespace {

using Dims = dnnl::memory::dims;

std::size_t mix(std::initializer_list<std::int64_t> values) {
  std::uint64_t hash = 0x9E3779B97F4A7C15;
  for (const std::int64_t value : values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xBF58476D1CE4E5B9;
    hash ^= hash >> 29;
  }
  return hash;
}

std::optional<GemmPrimitive> make_gemm(const OneDnn& onednn, const GemmShape& s, GemmTypes types) {
  if (onednn_type(types.operands) == dnnl::memory::data_type::undef) return {};
  GemmPrimitive made;
  made.a = strided({s.m, s.k}, types.operands, s.transpose_a ? Dims{1, s.m} : Dims{s.k, 1});
  made.b = strided({s.k, s.n}, types.operands, s.transpose_b ? Dims{1, s.k} : Dims{s.n, 1});
  made.c = strided({s.m, s.n}, types.result, {s.n, 1});
  const ThreadTeam team(onednn.threads());
  dnnl::primitive_attr attr = user_scratchpad();
  if (s.packs_b) {
    // The same for every beta: asked of the product without one.
    const dnnl::memory::desc any({s.k, s.n}, onednn_type(types.operands), dnnl::memory::format_tag::any);
    const auto best = describe_primitive<dnnl::matmul>(onednn.engine(), attr, made.a, any, made.c);
    if (!best) return {};
    made.b = best.weights_desc();
  }
  dnnl::post_ops operations;
  if (s.alpha != 1) append_scale(operations, static_cast<float>(s.alpha));
  if (s.beta != 0) operations.append_sum(static_cast<float>(s.beta));
  attr.set_post_ops(operations);
  const auto found = describe_primitive<dnnl::matmul>(onednn.engine(), attr, made.a, made.b, made.c);
  if (!found) return {};
  made.primitive = dnnl::matmul(found);
  made.scratch = found.scratchpad_desc();
  made.scratch_bytes = static_cast<std::int64_t>(made.scratch.get_size());
  return made;
}

/// NCHW dimensions stored as NHWC.
dnnl::memory::desc image(std::int64_t batch, std::int64_t channels, const Extent& size, DType dtype) {
  return strided({batch, channels, size.height, size.width}, dtype,
                 {size.height * size.width * channels, 1, size.width * channels, channels});
}

dnnl::memory::desc plain_weight(const ConvolutionGeometry& g, DType dtype) {
  const std::int64_t in = g.in_channels / g.groups;
  const std::int64_t out = g.out_channels / g.groups;
  const std::int64_t row = g.kernel.width * in;
  const std::int64_t filter = g.kernel.height * row;
  if (g.groups == 1) return strided({out, in, g.kernel.height, g.kernel.width}, dtype, {filter, 1, row, in});
  return strided({g.groups, out, in, g.kernel.height, g.kernel.width}, dtype, {out * filter, filter, 1, row, in});
}

/// oneDNN's reference code is slower than a plain loop.
template <class Descriptor>
bool is_fast(const Descriptor& descriptor) {
  return descriptor && std::string_view(descriptor.impl_info_str()).substr(0, 3) != "ref";
}

}  // namespace

std::size_t GemmPrimitives::Hash::operator()(const Key& key) const {
  const GemmShape& s = key.shape;
  return mix({s.m, s.n, s.k, (s.transpose_a ? 1 : 0) + (s.transpose_b ? 2 : 0) + (s.packs_b ? 4 : 0),
              std::bit_cast<std::int64_t>(s.alpha), std::bit_cast<std::int64_t>(s.beta),
              static_cast<std::int64_t>(key.types.operands), static_cast<std::int64_t>(key.types.result)});
}

const GemmPrimitive* GemmPrimitives::find(const GemmShape& shape, GemmTypes types) {
  const Key key{shape, types};
  auto place = cache_.find(key);
  if (place == cache_.end()) place = cache_.emplace(key, make_gemm(onednn_, shape, types)).first;
  return place->second ? &*place->second : nullptr;
}

std::size_t ConvolutionPrimitives::Hash::operator()(const Key& key) const {
  const ConvolutionGeometry& g = key.geometry;
  return mix({g.batch, g.input.height, g.input.width, g.in_channels, g.output.height, g.output.width, g.out_channels,
              g.kernel.height, g.kernel.width, g.stride.height, g.stride.width, g.padding.height, g.padding.width,
              g.dilation.height, g.dilation.width, g.groups, static_cast<std::int64_t>(key.part),
              static_cast<std::int64_t>(key.dtype)});
}

const ConvolutionPrimitive* ConvolutionPrimitives::find(const ConvolutionGeometry& g, ConvolutionPart part,
                                                        DType dtype) {
  const Key key{g, part, dtype};
  auto place = cache_.find(key);
  if (place == cache_.end()) place = cache_.emplace(key, make(key)).first;
  return place->second ? &*place->second : nullptr;
}

const Winograd* ConvolutionPrimitives::find_winograd(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) {
  if (!uses_winograd_) return nullptr;
  const Key key{g, part, dtype};
  auto place = winograd_cache_.find(key);
  if (place == winograd_cache_.end())
    place = winograd_cache_.emplace(key, Winograd::make(onednn_, g, part, dtype)).first;
  return place->second ? &*place->second : nullptr;
}

std::optional<ConvolutionPrimitive> ConvolutionPrimitives::make(const Key& key) {
  const ConvolutionGeometry& g = key.geometry;
  if (onednn_type(key.dtype) == dnnl::memory::data_type::undef) return {};
  const ThreadTeam team(onednn_.threads());
  const dnnl::engine& engine = onednn_.engine();
  const dnnl::primitive_attr attr = user_scratchpad();
  ConvolutionPrimitive made;
  made.x = image(g.batch, g.in_channels, g.input, key.dtype);
  made.y = image(g.batch, g.out_channels, g.output, key.dtype);
  made.plain_weight = plain_weight(g, key.dtype);
  const Dims in_group = g.groups == 1 ? Dims{g.out_channels, g.in_channels, g.kernel.height, g.kernel.width}
                                      : Dims{g.groups, g.out_channels / g.groups, g.in_channels / g.groups,
                                             g.kernel.height, g.kernel.width};
  const dnnl::memory::desc any(in_group, onednn_type(key.dtype), dnnl::memory::format_tag::any);
  const Dims stride{g.stride.height, g.stride.width};
  const Dims gap{g.dilation.height - 1, g.dilation.width - 1};
  const Dims padding{g.padding.height, g.padding.width};
  constexpr auto direct = dnnl::algorithm::convolution_direct;

  const auto finish = [&]<class Primitive>(const auto& found, const auto& weight, Primitive) {
    made.primitive = Primitive(found);
    made.weight = weight;
    made.scratch = found.scratchpad_desc();
    made.scratch_bytes = static_cast<std::int64_t>(made.scratch.get_size());
    made.packs = made.weight != made.plain_weight;
    if (!made.packs) return;
    made.layout = number_of(made.weight);
    const bool back = key.part == ConvolutionPart::backward_weight;
    made.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine, back ? made.weight : made.plain_weight, engine,
                                                               back ? made.plain_weight : made.weight));
    if (!back || key.dtype != DType::f32) return;
    dnnl::post_ops sum;
    sum.append_sum(1);
    dnnl::primitive_attr adds;
    adds.set_post_ops(sum);
    made.add = dnnl::reorder(dnnl::reorder::primitive_desc(engine, made.weight, engine, made.plain_weight, adds));
  };
  const auto forward = describe_primitive<dnnl::convolution_forward>(
      engine, attr, dnnl::prop_kind::forward_training, direct, made.x, any, made.y, stride, gap, padding, padding);
  if (!forward) return {};
  switch (key.part) {
    case ConvolutionPart::forward: {
      if (!is_fast(forward)) return {};
      finish(forward, forward.weights_desc(), dnnl::convolution_forward());
      return made;
    }
    case ConvolutionPart::backward_input: {
      const auto found = describe_backward<dnnl::convolution_backward_data>(engine, attr, forward, direct, made.x, any,
                                                                            made.y, stride, gap, padding, padding);
      if (!is_fast(found)) return {};
      finish(found, found.weights_desc(), dnnl::convolution_backward_data());
      return made;
    }
    case ConvolutionPart::backward_weight: {
      const auto found = describe_backward<dnnl::convolution_backward_weights>(
          engine, attr, forward, direct, made.x, any, made.y, stride, gap, padding, padding);
      if (!is_fast(found)) return {};
      finish(found, found.diff_weights_desc(), dnnl::convolution_backward_weights());
      return made;
    }
  }
  return {};
}

std::int64_t ConvolutionPrimitives::number_of(const dnnl::memory::desc& layout) {
  const auto place = std::find(layouts_.begin(), layouts_.end(), layout);
  const std::int64_t number = place - layouts_.begin();
  if (place == layouts_.end()) layouts_.push_back(layout);
  return number + 1;
}

std::int64_t gemm_needs(GemmPrimitives& primitives, const GemmShape& s, GemmTypes types) {
  if (s.m == 0 || s.n == 0 || s.k == 0) return 0;
  const GemmPrimitive* found = primitives.find(s, types);
  if (!is_widened(types.operands, found != nullptr)) return found != nullptr ? found->scratch_bytes : 0;
  found = primitives.find(s, gemm_f32);
  const std::int64_t wide_result = types.result == DType::f32 ? 0 : aligned(4 * s.m * s.n);
  return aligned(4 * s.m * s.k) + aligned(4 * s.k * s.n) + wide_result + (found != nullptr ? found->scratch_bytes : 0);
}

std::int64_t packed_needs(GemmPrimitives& primitives, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  if (dtype != DType::f32 || m == 0 || n == 0 || k == 0) return 0;
  const GemmPrimitive* const packed = primitives.find({.m = m, .n = n, .k = k, .packs_b = true}, gemm_f32);
  const GemmPrimitive* const plain = primitives.find({.m = m, .n = n, .k = k}, gemm_f32);
  if (packed == nullptr || plain == nullptr || packed->b == plain->b) return 0;
  return static_cast<std::int64_t>(packed->b.get_size());
}

ConvolutionNeeds convolution_needs(ConvolutionPrimitives& primitives, const ConvolutionGeometry& g,
                                   ConvolutionPart part, DType dtype) {
  if (g.is_empty()) return {};
  if (const Winograd* const winograd = primitives.find_winograd(g, part, dtype)) return winograd->needs();
  const std::int64_t weights = g.out_channels * g.kernel.height * g.kernel.width * (g.in_channels / g.groups);
  const auto native = [](const ConvolutionPrimitive* found) {
    return found == nullptr ? ConvolutionNeeds{}
                            : ConvolutionNeeds{found->scratch_bytes,
                                               found->packs ? static_cast<std::int64_t>(found->weight.get_size()) : 0,
                                               found->layout};
  };
  const ConvolutionPrimitive* found = primitives.find(g, part, dtype);
  if (!is_widened(dtype, found != nullptr)) {
    ConvolutionNeeds needs = native(found);
    needs.adds = part == ConvolutionPart::backward_weight && dtype == DType::f32 && needs.packed_weight > 0;
    return needs;
  }
  ConvolutionNeeds needs = native(primitives.find(g, part, DType::f32));
  needs.workspace += aligned(4 * g.batch * g.input.height * g.input.width * g.in_channels) +
                     aligned(4 * g.batch * g.output.height * g.output.width * g.out_channels) + aligned(4 * weights);
  // The packed weight is f32, also where its layout is the plain one; a gradient is narrowed from the workspace.
  if (needs.packed_weight == 0 && part != ConvolutionPart::backward_weight) needs.packed_weight = 4 * weights;
  return needs;
}

}  // namespace heddle::cpu
