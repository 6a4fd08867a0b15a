// Parameters and buffers of layers, and their initial values: drawn from the random key and the global element index,
// so that every layout gives the same initial model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/autograd/autograd.h"
#include "framework/kernels/training.h"
#include "framework/optimizers/optimizer.h"
#include "framework/scalars/random.h"
#include "layers/layer_layout.h"
#include "layers/precision.h"

namespace heddle {

struct Parameter {
  std::string name;    // full, e.g. layer1.0.conv1.weight
  ParameterPart part;  // what this rank holds of the whole
  Tensor value;
  std::shared_ptr<Accumulator> gradient;
  Variable variable;             // the leaf that operations read
  bool is_norm_or_bias = false;  // may be exempt from weight decay
  bool trainable = true;
  std::uint32_t stream = 0;  // the random stream of its initial values, and of its rounding
};

/// State that is not trained, such as running statistics. It is saved with the model.
struct Buffer {
  std::string name;
  ParameterPart part;
  Tensor value;
};

/// Something that a resumed run needs: a parameter, statistics or the state of an optimizer.
struct StateTensor {
  std::string name;  // the same on every rank and in every layout
  Tensor value;
  ParameterPart part;  // what this rank holds of the whole
  /// Each step of the training writes all elements, and into the storage's `next` where it has one.
  bool is_rewritten = false;
};

/// The arguments with which a layer is built. `next_stream` gives each parameter its own random stream, in model order.
struct Construction {
  Device& device;
  RandomKey key;
  Precision precision{};
  std::uint32_t next_stream = 0;
  const std::vector<std::string>* frozen = nullptr;  // patterns of the parameters that are not trained
};

struct Initial {
  enum class Kind { constant, normal, uniform } kind = Kind::constant;
  double a = 0;  // the constant; the mean; the lower end
  double b = 0;  // unused; the deviation; the upper end
  static Initial constant(double value) { return {Kind::constant, value, 0}; }
  static Initial normal(double deviation) { return {Kind::normal, 0, deviation}; }
  static Initial uniform(double bound) { return {Kind::uniform, -bound, bound}; }
};

struct ParameterOptions {
  bool is_norm_or_bias = false;
  bool trainable = true;
};

/// The rows of a parameter that a rank holds, as the optimizer needs them for rounding.
std::vector<WeightRows> weight_rows(const ParameterPart& part);

Parameter make_parameter(Construction& construction, std::string name, const ParameterPart& part,
                         const Initial& initial, const ParameterOptions& options = {});
Buffer make_buffer(Construction& construction, std::string name, const ParameterPart& part, double value);

}  // namespace heddle
