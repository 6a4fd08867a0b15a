// A layer some of whose parameters are not trained: they get no gradient.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/layer_spec.h"

namespace heddle {

/// Names, in which `*` stands for any text.
using NamePatterns = std::shared_ptr<const std::vector<std::string>>;

/// `names` are those of the layer's parameters, in their order.
LayerSpecPointer frozen_spec(LayerSpecPointer layer, const std::vector<std::string>& names, NamePatterns patterns);

}  // namespace heddle
