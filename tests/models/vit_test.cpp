// Vision transformers: the same outputs and gradients as PyTorch's, and InsightFace's parameters.
#include <algorithm>
#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "framework/files/safetensors.h"
#include "layers/inference_graph.h"
#include "layers/model.h"
#include "layers/modules/linear.h"
#include "layers/modules/tokens.h"
#include "layers/planner/planner.h"
#include "models/models.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/layouts.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

/// What a program of tests/models/files wrote.
class PublishedValues {
 public:
  explicit PublishedValues(const std::string& file) : file_(test::source_folder() / "tests/models/files" / file) {}

  Shape shape(const std::string& name) const { return file_.entries()[file_.index_of(name)].shape; }
  std::vector<double> values(const std::string& name) const {
    const std::size_t index = file_.index_of(name);
    std::vector<double> values(static_cast<std::size_t>(file_.entries()[index].shape.numel()));
    file_.read(index, std::as_writable_bytes(std::span(values)));
    return values;
  }
  /// The same in our order.
  std::vector<double> values(const std::string& name, const InferenceTensor& tensor) const {
    const std::vector<double> torch = values(name);
    std::vector<float> ours(torch.size());
    for (std::size_t i = 0; i < ours.size(); ++i) ours[i] = static_cast<float>(i);
    std::vector<float> order(torch.size());
    tensor.to_torch(ours, order);
    std::vector<double> result(torch.size());
    for (std::size_t i = 0; i < torch.size(); ++i) result[static_cast<std::size_t>(order[i])] = torch[i];
    return result;
  }

 private:
  SafetensorsReader file_;
};

std::vector<double> to_doubles(const Tensor& x) {
  Tensor wide = Tensor::empty(x.device(), x.shape(), DType::f64);
  x.device().backend().elementwise().cast(x, wide);
  return wide.to_host<double>();
}

void set(Tensor& to, const std::vector<double>& values) {
  const Tensor wide = Tensor::from_host(to.device(), to.shape(), values);
  to.device().backend().elementwise().cast(wide, to);
  to.storage()->changed();
}

/// [n, c, h, w] -> [n, h, w, c].
std::vector<double> channels_last(const std::vector<double>& image, const Shape& shape) {
  const auto [samples, channels, height, width] = std::array{shape[0], shape[1], shape[2], shape[3]};
  std::vector<double> result;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t pixel = 0; pixel < height * width; ++pixel)
      for (std::int64_t c = 0; c < channels; ++c)
        result.push_back(image[static_cast<std::size_t>((n * channels + c) * height * width + pixel)]);
  return result;
}

/// The model of make_vit.py.
ModelSpec insightface_model() {
  return make_model({.type = ModelType::vit,
                     .embedding = 5,
                     .vit = {.features = 8, .blocks = 2, .heads = 2, .patch = 4, .qkv_bias = true, .drop_path = 0}},
                    {.channels = 3, .height = 10, .width = 9});
}

/// The model of make_torchvision_vit.py.
ModelSpec torchvision_model() {
  return make_torchvision_vit({.features = 8, .blocks = 2, .heads = 2, .patch = 4}, {.embedding = 5},
                              {.channels = 3, .height = 12, .width = 12});
}

void compare_with_published(const ModelSpec& model_spec, const std::string& file, DType dtype, double tolerance) {
  const PublishedValues published(file);
  const auto spec = std::make_shared<ModelSpec>(model_spec);
  std::map<std::string, InferenceTensor> tensors;
  const InferenceGraph graph(*spec);
  for (const InferenceTensor& tensor : graph.tensors()) tensors.emplace(tensor.name, tensor);
  run_ranks(test::ranks(1), [&](Rank& rank) {
    Model model(spec, std::make_shared<ModelPlacement>(place(*spec, {})), {}, {rank.device, {1}, dtype});
    for (Parameter* parameter : model.parameters())
      set(parameter->value, published.values(parameter->name, tensors.at(parameter->name)));
    const Shape shape = published.shape("image");
    Tensor image = Tensor::empty(rank.device, {shape[0], shape[2], shape[3], shape[1]}, dtype);
    set(image, channels_last(published.values("image"), shape));
    const Variable output = model.forward(Variable(image), {.rank = rank, .training = true, .samples = {0, shape[0]}});
    CHECK(test::difference(to_doubles(output.value()), published.values("output")) < tolerance);
    Tensor gradient = Tensor::empty_like(output.value());
    set(gradient, published.values("output_gradient"));
    backward({{output, gradient}});
    // The biases in front of batch norms have no gradient but rounding: each tensor is held against all gradients.
    test::Tensors gradients;
    test::Tensors expected;
    for (const Parameter* parameter : model.parameters()) {
      gradients[parameter->name] = to_doubles(parameter->gradient->gradient());
      expected[parameter->name] = published.values("gradient." + parameter->name, tensors.at(parameter->name));
    }
    const test::Difference largest = test::max_difference(gradients, expected);
    CAPTURE(largest.tensor);
    CHECK(largest.error < tolerance);
  });
}

}  // namespace

TEST_CASE("a vision transformer gives PyTorch's outputs and gradients in f64") {
  compare_with_published(insightface_model(), "vit.safetensors", DType::f64, 1e-10);
}

TEST_CASE("a vision transformer gives PyTorch's outputs and gradients in f32") {
  compare_with_published(insightface_model(), "vit.safetensors", DType::f32, 1e-4);
}

TEST_CASE("a vision transformer with a class token gives torchvision's outputs and gradients in f64 and f32") {
  compare_with_published(torchvision_model(), "torchvision_vit.safetensors", DType::f64, 1e-10);
  compare_with_published(torchvision_model(), "torchvision_vit.safetensors", DType::f32, 1e-4);
}

TEST_CASE("vit_b_16 has torchvision's parameters, by name, shape and number") {
  const ModelSpec model = make_model({.type = ModelType::vit_b_16, .embedding = 1000}, {3, 224, 224});
  std::map<std::string, Shape> shapes;
  std::int64_t elements = 0;
  const InferenceGraph graph(model);
  for (const InferenceTensor& tensor : graph.tensors()) {
    shapes[tensor.name] = tensor.shape;
    elements += tensor.shape.numel();
  }
  CHECK(elements == 86'567'656);
  CHECK(shapes.size() == 152);
  CHECK(shapes.at("class_token") == Shape{1, 1, 768});
  CHECK(shapes.at("conv_proj.weight") == Shape{768, 3, 16, 16});
  CHECK(shapes.at("encoder.pos_embedding") == Shape{1, 197, 768});
  CHECK(shapes.at("encoder.layers.encoder_layer_11.self_attention.in_proj_weight") == Shape{2304, 768});
  CHECK(shapes.at("encoder.layers.encoder_layer_0.self_attention.in_proj_bias") == Shape{2304});
  CHECK(shapes.at("encoder.layers.encoder_layer_0.self_attention.out_proj.bias") == Shape{768});
  CHECK(shapes.at("encoder.layers.encoder_layer_0.mlp.3.weight") == Shape{768, 3072});
  CHECK(shapes.at("encoder.ln.bias") == Shape{768});
  CHECK(shapes.at("heads.head.weight") == Shape{1000, 768});
}

TEST_CASE("vit_b_16 begins with torchvision's weights, but for its last layer") {
  const auto spec = std::make_shared<ModelSpec>(torchvision_model());
  run_ranks(test::ranks(1), [&](Rank& rank) {
    Model model(spec, std::make_shared<ModelPlacement>(place(*spec, {})), {}, {rank.device, {1}, DType::f64});
    const auto largest = [&](const std::string& name) {
      for (const Parameter* parameter : model.parameters()) {
        if (parameter->name != name) continue;
        double bound = 0;
        for (const double x : parameter->value.to_doubles()) bound = std::max(bound, std::abs(x));
        return bound;
      }
      return -1.0;
    };
    const std::string block = "encoder.layers.encoder_layer_0.";
    // Uniform draws come near their bound.
    const auto is_near = [](double bound) { return close_to(bound).epsilon(0.1); };
    CHECK(largest(block + "self_attention.in_proj_weight") == is_near(std::sqrt(6.0 / 32)));
    CHECK(largest(block + "self_attention.out_proj.weight") == is_near(std::sqrt(1.0 / 8)));
    CHECK(largest(block + "mlp.0.weight") == is_near(std::sqrt(6.0 / 40)));
    CHECK(largest(block + "mlp.3.weight") == is_near(std::sqrt(6.0 / 40)));
    for (const char* const zero : {"self_attention.in_proj_bias", "self_attention.out_proj.bias", "mlp.0.bias"})
      CHECK(largest(block + zero) == 0);
    CHECK(largest("class_token") == 0);
    CHECK(largest("heads.head.weight") > 0);
  });
}

TEST_CASE("vision transformers have InsightFace's parameters, and with a mask its token, too") {
  const auto elements_of = [](ModelType type, double mask_ratio = 0) {
    const ModelSpec model = make_model({.type = type, .vit = {.mask_ratio = mask_ratio}}, {3, 112, 112});
    std::int64_t elements = 0;
    for (const ModelSpec::Application& application : model.applications())
      elements += application.layer->parameter_elements();
    return elements;
  };
  CHECK(elements_of(ModelType::vit_t) == 19'137'536);
  CHECK(elements_of(ModelType::vit_s) == 76'022'784);
  CHECK(elements_of(ModelType::vit_b) == 113'832'960);
  CHECK(elements_of(ModelType::vit_l) == 255'683'584);
  CHECK(elements_of(ModelType::vit_t, 0.1) == 19'137'536 + 256);
  const ModelSpec model = make_model({.type = ModelType::vit_t}, {3, 112, 112});
  CHECK(model.sample(2) == Shape{144, 256});
  CHECK(model.applications()[3].name == "blocks.0.norm1");
}

TEST_CASE("a vision transformer says what does not fit") {
  ModelConfig config{.type = ModelType::vit, .vit = {.features = 30, .heads = 4}};
  CHECK(message_of([&] {
          make_model(config, {3, 112, 112});
        }) == "vit: 30 features cannot be shared evenly by 4 heads");
  config.vit = {.patch = 16};
  CHECK(message_of([&] {
          make_model(config, {3, 112, 15});
        }) == "vit: images of 112 x 15 are smaller than a patch of 16 x 16");
  CHECK(message_of([&] {
          make_model({.type = ModelType::vit_b_16}, {3, 15, 224});
        }) == "vit: images of 15 x 224 are smaller than a patch of 16 x 16");
}

TEST_CASE("attention that cannot be shared is refused, and the message says what would do") {
  ModelSpec model({16, 12});
  model.then("attn.qkv", Linear::spec({.in = 12, .out = 36, .heads = 6}));
  model.then("attn", Attention::spec({.heads = 6}));
  model.place("attn", {.kind = Parallel::group, .over = Axis::tp});
  CHECK(message_of([&] { (void)place(model, {.mesh = Mesh(1, 1, 4)}); }) ==
        "attn: cannot be placed as group over tp (4 ranks): its 6 heads cannot be shared evenly by 4 ranks: 2, 3, 6 "
        "could");
  model.place("attn", {.kind = Parallel::sequence, .over = Axis::tp});
  CHECK(message_of([&] { (void)place(model, {.mesh = Mesh(1, 1, 4)}); }) ==
        "attn: cannot be placed as sequence over tp (4 ranks): its tokens see each other: group gives each rank some "
        "heads");
}

namespace {

using Requests = std::vector<std::pair<std::vector<const char*>, Parallel>>;

/// A network of two blocks.
ModelSpec two_blocks(std::int64_t features, const ImageShape& image = {3, 27, 27}) {
  return make_model({.type = ModelType::vit, .vit = {.features = features, .blocks = 2, .heads = 4, .drop_path = 0}},
                    image);
}

/// What is redistributed within the second block.
std::string redistributions_of_block(const ModelSpec& model, const PlannerOptions& options) {
  const ModelPlacement plan = place(model, options);
  PlacementCosts costs(model, options);
  std::string conversions;
  for (std::size_t i = 0; i < model.applications().size(); ++i) {
    const ModelSpec::Application& application = model.applications()[i];
    if (!application.name.starts_with("blocks.1")) continue;
    for (std::size_t input = 0; input < application.inputs.size(); ++input) {
      const int value = application.inputs[input];
      for (const RedistributionStepCost& step :
           costs.redistribution(value, plan.made(value), plan.layout(model, i, {}).input(input)))
        conversions += fmt::format("{} takes {}\n", application.name, to_string(step.step));
    }
  }
  return conversions;
}

/// The same, if the layers are placed in these ways over four ranks.
std::string redistributions_of_block(const Requests& requests) {
  ModelSpec model = two_blocks(16);
  for (const auto& [patterns, kind] : requests)
    for (const char* const layers : patterns) model.place(layers, {.kind = kind, .over = Axis::tp, .other = {}});
  return redistributions_of_block(model, {.mesh = Mesh(1, 1, 4), .samples = 16});
}

constexpr const char* without_sequence =
    "blocks.1.attn.qkv takes tp: R -> R/P\nblocks.1.attn.sum takes tp: P -> R\n"
    "blocks.1.mlp.fc1 takes tp: R -> R/P\nblocks.1.mlp.sum takes tp: P -> R\n";
constexpr const char* with_sequence =
    "blocks.1.attn.qkv takes tp: S(1) -> R/P\nblocks.1.attn.sum takes tp: P -> S(1)\n"
    "blocks.1.mlp.fc1 takes tp: S(1) -> R/P\nblocks.1.mlp.sum takes tp: P -> S(1)\n";

}  // namespace

TEST_CASE("column and row of a block's linear layers are Megatron's plan: one all-reduce of each branch per pass") {
  CHECK(redistributions_of_block({{{"blocks.*.attn.qkv", "blocks.*.mlp.fc1"}, Parallel::column},
                                  {{"blocks.*.attn.proj", "blocks.*.mlp.fc2"}, Parallel::row},
                                  {{"*norm*", "*sum", "patch_embed*", "pos_embed"}, Parallel::replicate}}) ==
        without_sequence);
}

TEST_CASE("sequence around them makes each all-reduce a reduce-scatter and an all-gather of tokens") {
  CHECK(redistributions_of_block({{{"blocks.*.attn.qkv", "blocks.*.mlp.fc1"}, Parallel::column},
                                  {{"blocks.*.attn.proj", "blocks.*.mlp.fc2"}, Parallel::row},
                                  {{"blocks.*norm*", "blocks.*sum", "pos_embed"}, Parallel::sequence}}) ==
        with_sequence);
}

TEST_CASE("for few samples of a wide transformer, the planner finds Megatron's plans by itself") {
  PlannerOptions options{.mesh = Mesh(1, 1, 4), .samples = 2, .automatic = true};
  CHECK(redistributions_of_block(two_blocks(1024), options) == without_sequence);
  // Where messages take little time to begin, the norms are shared, too.
  options.links.within_node.latency = 1e-7;
  CHECK(redistributions_of_block(two_blocks(1024, {3, 112, 112}), options) == with_sequence);
}

TEST_CASE("sequence for all layers of a block but attention is Ulysses: two all-to-alls between tokens and heads") {
  CHECK(redistributions_of_block(
            {{{"blocks.*", "pos_embed"}, Parallel::sequence}, {{"blocks.*.attn"}, Parallel::group}}) ==
        "blocks.1.attn takes tp: S(1) -> S(2)\nblocks.1.attn.proj takes tp: S(2) -> S(1)\n");
}

}  // namespace heddle::test
