// oneDNN's convolutions, each made once per geometry. Both the kernels, which run them, and the needs that plan asks
// for hold such a cache.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "framework/backends/cpu/convolution/winograd.h"
#include "framework/backends/cpu/onednn/onednn.h"
#include "framework/kernels/convolution.h"

namespace heddle::cpu {

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

ConvolutionNeeds convolution_needs(ConvolutionPrimitives& primitives, const ConvolutionGeometry& g,
                                   ConvolutionPart part, DType dtype);

}  // namespace heddle::cpu
