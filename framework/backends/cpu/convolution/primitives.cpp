#include "framework/backends/cpu/convolution/primitives.h"

#include <algorithm>
#include <string_view>

#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

namespace {

using Dims = dnnl::memory::dims;

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

/// Plain loops compute convolutions with more weights. For 10^11 of them, which one can plan, oneDNN 2.6 searches for
/// its code for minutes where there is AMX.
constexpr std::int64_t max_weights = std::int64_t{1} << 31;

/// oneDNN's reference code is slower than a plain loop.
template <class Descriptor>
bool is_fast(const Descriptor& descriptor) {
  return descriptor && std::string_view(descriptor.impl_info_str()).substr(0, 3) != "ref";
}

}  // namespace

std::size_t ConvolutionPrimitives::Hash::operator()(const Key& key) const {
  const ConvolutionGeometry& g = key.geometry;
  return hash_of({g.batch, g.input.height, g.input.width, g.in_channels, g.output.height, g.output.width,
                  g.out_channels, g.kernel.height, g.kernel.width, g.stride.height, g.stride.width, g.padding.height,
                  g.padding.width, g.dilation.height, g.dilation.width, g.groups, static_cast<std::int64_t>(key.part),
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
  if (onednn_type(key.dtype) == dnnl::memory::data_type::undef || g.weights() > max_weights) return {};
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
  const auto forward = find_primitive<dnnl::convolution_forward>(
      engine, attr, dnnl::prop_kind::forward_training, direct, made.x, any, made.y, stride, gap, padding, padding);
  if (!forward) return {};
  switch (key.part) {
    case ConvolutionPart::forward: {
      if (!is_fast(forward)) return {};
      finish(forward, forward.weights_desc(), dnnl::convolution_forward());
      return made;
    }
    case ConvolutionPart::backward_input: {
      const auto found = find_backward<dnnl::convolution_backward_data>(engine, attr, forward, direct, made.x, any,
                                                                        made.y, stride, gap, padding, padding);
      if (!is_fast(found)) return {};
      finish(found, found.weights_desc(), dnnl::convolution_backward_data());
      return made;
    }
    case ConvolutionPart::backward_weight: {
      const auto found = find_backward<dnnl::convolution_backward_weights>(engine, attr, forward, direct, made.x, any,
                                                                           made.y, stride, gap, padding, padding);
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

ConvolutionNeeds convolution_needs(ConvolutionPrimitives& primitives, const ConvolutionGeometry& g,
                                   ConvolutionPart part, DType dtype) {
  if (g.is_empty()) return {};
  if (const Winograd* const winograd = primitives.find_winograd(g, part, dtype)) return winograd->needs();
  const std::int64_t weights = g.weights();
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
