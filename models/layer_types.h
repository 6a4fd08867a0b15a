// The types of the layers in `model.layers`: how each is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tensors/shape.h"
#include "layers/modules/token_masks.h"
#include "models/layer_list.h"

namespace heddle {

/// A mask_tokens layer.
struct NamedMask {
  std::string name;
  TokenMasking masking;
};

/// A layer that is to be made.
struct GivenLayer {
  const LayerConfig& config;
  const std::string& name;
  const Shape& first;  // its first input, of one sample
  std::size_t inputs = 1;
  std::vector<NamedMask>& masks;  // those before it

  std::int64_t channels() const { return first.back(); }
};

/// The name of its type: of the table or of an extension.
std::string_view type_of(const LayerConfig& config);

/// InputError if its inputs or keys do not fit the type.
LayerSpecPointer make_layer(const GivenLayer& given);

}  // namespace heddle
