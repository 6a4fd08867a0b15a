#include "experiments/export/onnx_model.h"

#include <array>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

constexpr std::int64_t operator_set = 17;
constexpr std::int64_t format_version = 8;  // of ONNX 1.12, the first with this operator set
constexpr std::size_t min_external = 1024;  // bytes of a tensor that lies beside a large model

void add_dimension(onnx::ValueInfoProto& value, std::int64_t size) {
  value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(size);
}

/// A value whose first dimension is the number of images.
void describe_value(onnx::ValueInfoProto& value, const std::string& name, std::initializer_list<std::int64_t> sizes) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("n");
  for (const std::int64_t size : sizes) add_dimension(value, size);
}

struct SetAttribute {
  onnx::AttributeProto& attribute;
  void operator()(std::int64_t value) const {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  void operator()(float value) const {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }
};

/// One number per channel, of a list that may have one for all.
std::vector<float> per_channel(const std::vector<double>& numbers, std::int64_t channels, double factor) {
  std::vector<float> result;
  for (std::int64_t c = 0; c < channels; ++c)
    result.push_back(static_cast<float>(factor * numbers[numbers.size() == 1 ? 0 : static_cast<std::size_t>(c)]));
  return result;
}

class OnnxModel {
 public:
  OnnxModel(const TrainedModel& model, const OnnxOptions& options, std::string data_file)
      : model_(model), options_(options), data_file_(std::move(data_file)) {
    proto_.set_ir_version(format_version);
    proto_.set_producer_name("heddle");
    proto_.add_opset_import()->set_version(operator_set);
    graph().set_name("backbone");
    const ImageShape& image = model.preprocessing.image();
    describe_value(*graph().add_input(), "input", {image.channels, image.height, image.width});
    describe_value(*graph().add_output(), "embedding", {model.embedding});
    const std::string input = options.takes_pixels ? add_preprocessing() : "input";
    for (const auto& [name, value] : model.graph.constants()) add_tensor(name, {}, {&value, 1});
    for (const auto& [name, indices] : model.graph.index_lists()) add_indices(name, indices);
    for (const InferenceTensor& tensor : model.graph.tensors())
      if (model.graph.reads(tensor.name))
        add_tensor(tensor.name, tensor.operand.value_or(tensor.shape), model.elements.at(tensor.name));
    for (InferenceNode node : model.graph.nodes()) {
      for (std::string& name : node.inputs)
        if (name == "input") name = input;
      if (node.output == "embedding" && options.normalizes)
        node = {"LpNormalization", node.inputs, node.output, {{"axis", std::int64_t{1}}, {"p", std::int64_t{2}}}};
      add_node(node);
    }
  }

  void write(const std::filesystem::path& file) const {
    std::string bytes;
    if (!proto_.SerializeToString(&bytes)) fail("{}: the model could not be serialised", file.string());
    std::unique_ptr<AtomicFile> data;
    if (!external_.empty()) {
      data = std::make_unique<AtomicFile>(file.parent_path() / data_file_);
      for (const std::span<const float> elements : external_) data->write(std::as_bytes(elements));
      data->finish();
    }
    AtomicFile target(file);
    target.write(bytes);
    target.finish();
    if (data) data->commit();
    target.commit();
  }

 private:
  onnx::GraphProto& graph() { return *proto_.mutable_graph(); }

  /// Pixels to what the network takes: (x - 255 mean) * scale / 255. InsightFace's loader knows that a model does so by
  /// the names of the nodes.
  std::string add_preprocessing() {
    const std::int64_t channels = model_.preprocessing.image().channels;
    const PreprocessingConfig& steps = model_.preprocessing.config();
    std::string pixels = "input";
    if (channels == 3 && steps.colour == ColourOrder::bgr) {
      add_indices("preprocessing.order", std::array<std::int64_t, 3>{2, 1, 0});
      pixels = "preprocessing.colours";
      add_node({"Gather", {"input", "preprocessing.order"}, pixels, {{"axis", std::int64_t{1}}}});
    }
    add_tensor("preprocessing.mean", {1, channels, 1, 1}, per_channel(steps.mean, channels, 255));
    add_tensor("preprocessing.scale", {1, channels, 1, 1}, per_channel(steps.scale, channels, 1.0 / 255));
    add_node({"Sub", {pixels, "preprocessing.mean"}, "Sub_preprocessing"});
    add_node({"Mul", {"Sub_preprocessing", "preprocessing.scale"}, "Mul_preprocessing"});
    return "Mul_preprocessing";
  }

  void check_name(const std::string& name) {
    if (!names_.insert(name).second)
      fail<InputError>("a layer and a tensor of the ONNX model are both called \"{}\": give the layer another name",
                       name);
  }

  onnx::TensorProto& add_initializer(const std::string& name) {
    check_name(name);
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    return tensor;
  }

  void add_node(const InferenceNode& node) {
    check_name(node.output);
    onnx::NodeProto& proto = *graph().add_node();
    proto.set_op_type(node.op);
    proto.set_name(node.output);
    for (const std::string& input : node.inputs) proto.add_input(input);
    proto.add_output(node.output);
    for (const auto& [name, value] : node.attributes) {
      onnx::AttributeProto& attribute = *proto.add_attribute();
      attribute.set_name(name);
      std::visit(SetAttribute{attribute}, value);
    }
  }

  void add_indices(const std::string& name, std::span<const std::int64_t> indices) {
    onnx::TensorProto& tensor = add_initializer(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<std::int64_t>(indices.size()));
    for (const std::int64_t index : indices) tensor.add_int64_data(index);
  }

  void add_tensor(const std::string& name, const Shape& shape, std::span<const float> elements) {
    onnx::TensorProto& tensor = add_initializer(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t size : shape.dimensions()) tensor.add_dims(size);
    if (data_file_.empty() || elements.size_bytes() < min_external) {
      tensor.set_raw_data(elements.data(), elements.size_bytes());
      return;
    }
    const auto set = [&tensor](const char* key, const std::string& value) {
      onnx::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    set("location", data_file_);
    set("offset", std::to_string(external_bytes_));
    set("length", std::to_string(elements.size_bytes()));
    external_.push_back(elements);
    external_bytes_ += elements.size_bytes();
  }

  const TrainedModel& model_;
  const OnnxOptions& options_;
  std::string data_file_;  // empty: the weights are in the model
  onnx::ModelProto proto_;
  std::set<std::string> names_{"input"};  // of values and tensors
  std::vector<std::span<const float>> external_;
  std::size_t external_bytes_ = 0;
};

}  // namespace

void write_onnx(const TrainedModel& model, const OnnxOptions& options, const std::filesystem::path& file) {
  std::size_t bytes = 0;
  for (const auto& [name, elements] : model.elements) bytes += elements.size() * sizeof(float);
  const bool is_external = bytes > static_cast<std::size_t>(options.max_bytes);
  OnnxModel(model, options, is_external ? file.filename().string() + ".data" : "").write(file);
}

}  // namespace heddle
