#include "framework/kernels/convolution.h"

#include <algorithm>
#include <cstring>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/convolution/plain.h"
#include "framework/backends/cpu/convolution/primitives.h"
#include "framework/backends/cpu/elementwise/bias.h"
#include "framework/backends/cpu/loops/widen.h"
#include "framework/error.h"
#include "framework/scalars/windows.h"

namespace heddle::cpu {

namespace {

/// Addresses of one call's operands, in the type that it is computed in.
struct Operands {
  void* x;
  void* weight;
  void* y;
  void* scratch;
};

/// Sets the f32 copies of a widened call aside in its workspace.
struct Widened {
  Widened(const ConvolutionGeometry& g, const Tensor& workspace) {
    auto* const base = static_cast<std::byte*>(workspace.data());
    const std::int64_t x_bytes = aligned(4 * g.batch * g.input.height * g.input.width * g.in_channels);
    const std::int64_t y_bytes = aligned(4 * g.batch * g.output.height * g.output.width * g.out_channels);
    const std::int64_t weight_bytes = aligned(4 * g.weights());
    x = reinterpret_cast<float*>(base);
    y = reinterpret_cast<float*>(base + x_bytes);
    weight = reinterpret_cast<float*>(base + x_bytes + y_bytes);
    scratch = base + x_bytes + y_bytes + weight_bytes;
  }
  float* x;
  float* y;
  float* weight;
  void* scratch;
};

void* address(const Tensor& tensor) {
  return tensor.defined() ? tensor.data() : nullptr;
}

/// A sum over nothing is 0.
void clear(Tensor& sums) {
  if (sums.numel() > 0) std::memset(sums.data(), 0, static_cast<std::size_t>(sums.bytes()));
}

/// Whether a tap of the kernel meets nothing but padding, as in a kernel of 3 over an input of 1.
bool has_idle_tap(const ConvolutionGeometry& g) {
  const auto is_idle = [](std::int64_t tap, std::int64_t outputs, std::int64_t stride, std::int64_t padding,
                          std::int64_t dilation, std::int64_t size) {
    for (std::int64_t out = 0; out < outputs; ++out)
      if (input_of(out, tap, stride, padding, dilation, size) >= 0) return false;
    return true;
  };
  for (std::int64_t tap = 0; tap < g.kernel.height; ++tap)
    if (is_idle(tap, g.output.height, g.stride.height, g.padding.height, g.dilation.height, g.input.height))
      return true;
  for (std::int64_t tap = 0; tap < g.kernel.width; ++tap)
    if (is_idle(tap, g.output.width, g.stride.width, g.padding.width, g.dilation.width, g.input.width)) return true;
  return false;
}

/// oneDNN (2.6, bf16) leaves the gradients of idle taps as they were in its scratchpad and in the result: they are 0.
void clear_for_idle_taps(const ConvolutionGeometry& g, const ConvolutionPrimitive& primitive, const Operands& o) {
  if (!has_idle_tap(g)) return;
  if (primitive.scratch_bytes > 0) std::memset(o.scratch, 0, static_cast<std::size_t>(primitive.scratch_bytes));
  std::memset(o.weight, 0, primitive.weight.get_size());
}

template <class T>
void run_plain(const ConvolutionGeometry& g, ConvolutionPart part, const Operands& o) {
  auto* const x = static_cast<T*>(o.x);
  auto* const weight = static_cast<T*>(o.weight);
  auto* const y = static_cast<T*>(o.y);
  switch (part) {
    case ConvolutionPart::forward:
      return plain_forward<T>(g, x, weight, y);
    case ConvolutionPart::backward_input:
      return plain_backward_input<T>(g, y, weight, x);
    case ConvolutionPart::backward_weight:
      return plain_backward_weight<T>(g, x, y, weight);
  }
}

void run_onednn(const OneDnn& onednn, const ConvolutionPrimitive& p, ConvolutionPart part, const Operands& o) {
  struct Roles {
    int x, weight, y;
  };
  constexpr Roles roles[] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                             {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                             {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  const Roles role = roles[static_cast<std::size_t>(part)];
  onednn.run(p.primitive, {{role.x, onednn.memory(p.x, o.x)},
                           {role.weight, onednn.memory(p.weight, o.weight)},
                           {role.y, onednn.memory(p.y, o.y)},
                           {DNNL_ARG_SCRATCHPAD, onednn.memory(p.scratch, o.scratch)}});
}

void run_winograd(const OneDnn& onednn, const Winograd& winograd, ConvolutionPart part, const Tensor& x,
                  const Tensor& weight, const Tensor& y, std::byte* workspace) {
  auto* const images = x.as<float>();
  auto* const weights = weight.as<float>();
  auto* const results = y.as<float>();
  switch (part) {
    case ConvolutionPart::forward:
      return winograd.convolve(onednn, images, weights, results, workspace);
    case ConvolutionPart::backward_input:
      return winograd.convolve(onednn, results, weights, images, workspace);
    case ConvolutionPart::backward_weight:
      return winograd.backward_weight(onednn, images, results, weights, workspace);
  }
}

/// `packed`: for backward_weight only, where the gradient is computed before it is put into the plain layout, or added
/// there.
void run_convolution(Context& context, const ConvolutionGeometry& g, ConvolutionPart part, Tensor x, Tensor weight,
                     Tensor y, const Tensor& packed, const Tensor& workspace, bool adds) {
  const OneDnn& onednn = context.onednn();
  ConvolutionPrimitives& primitives = context.convolutions();
  const bool writes_weight = part == ConvolutionPart::backward_weight;
  const DType dtype = x.dtype();
  if (const Winograd* const winograd = primitives.find_winograd(g, part, dtype))
    return run_winograd(onednn, *winograd, part, x, weight, y, static_cast<std::byte*>(workspace.data()));
  const ConvolutionPrimitive* found = primitives.find(g, part, dtype);
  const bool wide = is_widened(dtype, found != nullptr);
  Operands operands{x.data(), weight.data(), y.data(), address(workspace)};
  std::optional<Widened> copies;
  if (wide) {
    found = primitives.find(g, part, DType::f32);
    copies.emplace(g, workspace);
    operands = {copies->x, writes_weight ? copies->weight : weight.data(), copies->y, copies->scratch};
    if (part != ConvolutionPart::backward_input) widen(x, copies->x);
    if (part != ConvolutionPart::forward) widen(y, copies->y);
  }
  void* const plain_gradient = operands.weight;
  const bool unpacks = writes_weight && found != nullptr && found->packs;
  if (unpacks) operands.weight = packed.data();
  if (found != nullptr) {
    if (writes_weight) clear_for_idle_taps(g, *found, operands);
    run_onednn(onednn, *found, part, operands);
  } else {
    const ThreadTeam team(context.threads());
    dtype == DType::f64 ? run_plain<double>(g, part, operands) : run_plain<float>(g, part, operands);
  }
  if (unpacks)
    onednn.run(adds ? found->add : found->reorder, {{DNNL_ARG_FROM, onednn.memory(found->weight, packed.data())},
                                                    {DNNL_ARG_TO, onednn.memory(found->plain_weight, plain_gradient)}});
  if (!wide) return;
  switch (part) {
    case ConvolutionPart::forward:
      return narrow(copies->y, y);
    case ConvolutionPart::backward_input:
      return narrow(copies->x, x);
    case ConvolutionPart::backward_weight:
      return narrow(copies->weight, weight);
  }
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
ConvolutionNeeds ConvolutionKernelsOn<cpu::Context>::convolution_needs(const ConvolutionGeometry& g,
                                                                       ConvolutionPart part, DType dtype) const {
  return cpu::convolution_needs(context_.convolutions(), g, part, dtype);
}

template <>
std::vector<ChosenConvolution> ConvolutionKernelsOn<cpu::Context>::chosen_convolutions() const {
  return {};
}

template <>
void ConvolutionKernelsOn<cpu::Context>::pack_weight(const ConvolutionGeometry& g, ConvolutionPart part,
                                                     const Tensor& weight, Tensor& packed) const {
  const cpu::OneDnn& onednn = context_.onednn();
  cpu::ConvolutionPrimitives& primitives = context_.convolutions();
  if (const cpu::Winograd* const winograd = primitives.find_winograd(g, part, weight.dtype())) {
    const cpu::ThreadTeam team(context_.threads());
    return winograd->transform_weight(weight.as<float>(), packed.as<float>());
  }
  const cpu::ConvolutionPrimitive* found = primitives.find(g, part, weight.dtype());
  if (!cpu::is_widened(weight.dtype(), found != nullptr)) {
    if (found == nullptr || !found->packs) fail("convolution: {} needs no packing", to_string(weight));
    onednn.run(found->reorder, {{DNNL_ARG_FROM, onednn.memory(found->plain_weight, weight.data())},
                                {DNNL_ARG_TO, onednn.memory(found->weight, packed.data())}});
    return;
  }
  found = primitives.find(g, part, DType::f32);
  if (found == nullptr || !found->packs) return cpu::widen(weight, packed.as<float>());
  // A transient copy outside the meter: weights are small beside activations, and this happens once per change of the
  // weight.
  std::vector<float> wide(static_cast<std::size_t>(weight.numel()));
  cpu::widen(weight, wide.data());
  onednn.run(found->reorder, {{DNNL_ARG_FROM, onednn.memory(found->plain_weight, wide.data())},
                              {DNNL_ARG_TO, onednn.memory(found->weight, packed.data())}});
}

template <>
void ConvolutionKernelsOn<cpu::Context>::convolution_forward(const ConvolutionGeometry& g, const Tensor& x,
                                                             const Tensor& weight, const Tensor& bias, Tensor& y,
                                                             Tensor& workspace) const {
  if (g.is_empty())
    cpu::clear(y);
  else
    cpu::run_convolution(context_, g, ConvolutionPart::forward, x, weight, y, {}, workspace, false);
  cpu::add_bias(bias, y);
}

template <>
void ConvolutionKernelsOn<cpu::Context>::convolution_backward_input(const ConvolutionGeometry& g, const Tensor& dy,
                                                                    const Tensor& weight, Tensor& dx,
                                                                    Tensor& workspace) const {
  if (g.is_empty()) return cpu::clear(dx);
  cpu::run_convolution(context_, g, ConvolutionPart::backward_input, dx, weight, dy, {}, workspace, false);
}

template <>
void ConvolutionKernelsOn<cpu::Context>::convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                                                     const Tensor& dy, bool adds, Tensor& dweight,
                                                                     Tensor& packed, Tensor& workspace) const {
  if (g.is_empty()) return cpu::clear(dweight);
  cpu::run_convolution(context_, g, ConvolutionPart::backward_weight, x, dweight, dy, packed, workspace, adds);
}

}  // namespace heddle
