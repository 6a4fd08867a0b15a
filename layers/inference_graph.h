// A model as other programs run it: ONNX operators on images [n, c, h, w], with the tensors of PyTorch's state dict.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "framework/tensors/image_shape.h"
#include "framework/tensors/shape.h"

namespace heddle {

class ModelSpec;

/// A parameter or a statistic. If its last elements, or those of each of its rows, are an image, we store it in the
/// order height, width, channel, PyTorch in the order channel, height, width: so in the kernels of a convolution, and
/// in the columns of a linear layer that reads a flattened image. The rows of queries, keys and values are interleaved
/// by heads here, and by parts in PyTorch.
struct InferenceTensor {
  std::string name;
  Shape shape;                        // in PyTorch
  std::optional<ImageShape> image{};  // of its last elements
  std::optional<Shape> operand{};     // its shape as an operand, if it differs
  std::size_t application{};          // of the model, to which it belongs
  std::int64_t heads = 0;             // if not 0, its rows are queries, keys and values of heads (LinearOptions::heads)

  /// Whether it is a parameter; else it is a statistic.
  bool is_parameter() const { return !name.ends_with(".running_mean") && !name.ends_with(".running_var"); }

  /// Calls move(index of an element in our order, its index in PyTorch's order) for the first `elements`, which are
  /// whole images; with heads, for all of them.
  template <class Move>
  void for_each_element(std::size_t elements, Move&& move) const;
  /// Reorders elements; both have those of the whole tensor.
  void to_torch(std::span<const float> ours, std::span<float> torch) const;
};

template <class Move>
void InferenceTensor::for_each_element(std::size_t elements, Move&& move) const {
  if (heads > 0) {
    constexpr std::size_t parts = 3;
    const auto count = static_cast<std::size_t>(heads);
    const std::size_t length = elements / (count * parts);  // of the rows of one head and part
    for (std::size_t head = 0; head < count; ++head)
      for (std::size_t part = 0; part < parts; ++part)
        for (std::size_t i = 0; i < length; ++i)
          move((head * parts + part) * length + i, (part * count + head) * length + i);
    return;
  }
  const ImageShape size = image.value_or(ImageShape{.channels = 1, .height = 1, .width = 1});
  const auto channels = static_cast<std::size_t>(size.channels);
  const auto pixels = static_cast<std::size_t>(size.height * size.width);
  for (std::size_t row = 0; row < elements; row += channels * pixels)
    for (std::size_t channel = 0; channel < channels; ++channel)
      for (std::size_t pixel = 0; pixel < pixels; ++pixel)
        move(row + pixel * channels + channel, row + channel * pixels + pixel);
}

using InferenceAttribute = std::variant<std::int64_t, float, std::vector<std::int64_t>>;

/// An operator of ONNX, operator set 17.
struct InferenceNode {
  std::string op;
  std::vector<std::string> inputs;  // values, tensors and constants
  std::string output;
  std::map<std::string, InferenceAttribute> attributes{};
};

/// A value of the graph.
struct InferenceValue {
  std::string name;
  /// The image that was flattened into it, whose elements are in the order channel, height, width there.
  std::optional<ImageShape> image{};
  /// If not 0, it has the queries of all heads, then their keys and values, as published models do; else ours has the
  /// query, key and value of each head in turn (LinearOptions::heads).
  std::int64_t heads = 0;
};

class InferenceGraph {
 public:
  /// The graph of a model. Its input is named `input`, its output `embedding`.
  explicit InferenceGraph(const ModelSpec& model);

  const std::vector<InferenceTensor>& tensors() const { return tensors_; }
  const std::vector<InferenceNode>& nodes() const { return nodes_; }
  /// Whether an operator reads this tensor. Some are trained and have no part in inference.
  bool reads(const std::string& tensor) const { return read_.contains(tensor); }
  /// Scalars, by their names.
  const std::map<std::string, float>& constants() const { return constants_; }
  /// Lists of indices, by their names.
  const std::map<std::string, std::vector<std::int64_t>>& index_lists() const { return index_lists_; }
  /// The image, if the model ends with a flattened one. The graph brings the embedding into our order; the same layers
  /// in PyTorch give it in theirs.
  const std::optional<ImageShape>& embedding_image() const { return embedding_image_; }

  // For the layers.
  /// Appends an operator, and returns the name of its output: `output`, or one like it if another output is called
  /// that.
  std::string node(const std::string& output, const std::string& op, std::vector<std::string> inputs,
                   std::map<std::string, InferenceAttribute> attributes = {});
  /// Appends the sum of two values, whose elements may be in different orders.
  InferenceValue sum(const std::string& output, const InferenceValue& a, const InferenceValue& b);
  /// Declares a tensor, and returns its name.
  std::string tensor(InferenceTensor tensor);
  std::string constant(const std::string& name, float value);

 private:
  /// Returns the name of the value with its elements in our order.
  std::string in_our_order(const InferenceValue& value);
  void append(const std::string& output, const std::string& op, std::vector<std::string> inputs,
              std::map<std::string, InferenceAttribute> attributes);

  std::vector<InferenceTensor> tensors_;
  std::vector<InferenceNode> nodes_;
  std::set<std::string> read_;  // the inputs of all nodes
  std::set<std::string> values_{"input", "embedding"};
  std::map<std::string, float> constants_;
  std::map<std::string, std::vector<std::int64_t>> index_lists_;
  std::optional<ImageShape> embedding_image_;
};

/// What a layer gets to write itself into a graph.
struct InferenceInputs {
  std::span<const InferenceValue> values;
  std::span<const Shape> samples;  // the shapes of one sample each in evaluation, as in ModelSpec

  const std::string& name(std::size_t input = 0) const { return values[input].name; }
  bool is_image() const { return samples[0].rank() == 3; }
};

/// A tensor with one element for each channel of a layer's first input: along the last dimension of ours.
InferenceTensor channel_tensor(const std::string& name, const InferenceInputs& inputs);

}  // namespace heddle
