// The layers that mask tokens and restore them, and the class token: what they refuse, and what they are in evaluation
// and in exports.
#include "layers/modules/token_masks.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "layers/inference_graph.h"
#include "layers/model.h"
#include "layers/modules/class_token.h"
#include "layers/modules/convolution.h"
#include "layers/modules/linear.h"
#include "layers/modules/tokens.h"
#include "layers/planner/planner.h"
#include "models/models.h"
#include "parallel/placement/redistribute.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/ranks.h"

namespace heddle::test::token_masks_test {

namespace {

constexpr ImageShape image{.channels = 3, .height = 8, .width = 8};

/// A vision transformer with 16 tokens.
ModelConfig vit(double mask_ratio) {
  return {.type = ModelType::vit,
          .embedding = 5,
          .vit = {.features = 8, .blocks = 2, .heads = 2, .patch = 2, .drop_path = 0, .mask_ratio = mask_ratio}};
}

std::string refusal(std::vector<LayerConfig> layers) {
  return message_of<InputError>(
      [&] { (void)make_model({.type = ModelType::layers, .layers = std::move(layers)}, image); });
}

std::string placement_refusal(const std::vector<LayerSpecPointer>& layers, Parallel kind) {
  return message_of<InputError>([&] {
    ModelSpec model(Shape{6, 4});
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) model.then("before", layers[i]);
    model.then("layer", layers.back());
    model.place("layer", {.kind = kind, .over = Axis::tp});
    (void)place(model, {.mesh = Mesh(1, 1, 2)});
  });
}

/// The embeddings of five drawn images, one after the other, on a mesh.
std::vector<double> embeddings(const ModelSpec& model, const Mesh& mesh, bool training, std::int64_t step = 0) {
  const auto spec = std::make_shared<ModelSpec>(model);
  const auto plan = std::make_shared<ModelPlacement>(place(*spec, {.mesh = mesh, .samples = 5}));
  std::vector<double> all;
  run_ranks(test::ranks(mesh), [&](Rank& rank) {
    Model own(spec, plan, rank.coordinates, {rank.device, {1}, DType::f64});
    const Tensor images = tensor(rank.device, {5, 8, 8, 3}, normal_values(5 * 8 * 8 * 3, 3));
    const IndexRange samples = local_box(images.shape(), plan->made(0), mesh, rank.coordinates)[0];
    const Variable y = own.forward(Variable(images.rows(samples.begin, samples.end())),
                                   {.rank = rank, .training = training, .step = step, .samples = {0, 5}});
    const int last = spec->last_value();
    const Placed whole = redistribute({y, spec->shape(last, 5), plan->made(last)}, {}, rank.groups);
    if (rank.index == 0) all = whole.value.value().to_doubles();
  });
  return all;
}

/// Attention between 16 tokens, of which training masks four; no norm mixes the samples.
ModelSpec masked_attention(bool masks) {
  ModelSpec model(Shape{8, 8, 3});
  model.then("patches", Convolution::spec({.in = 3, .out = 8, .kernel = 2, .stride = 2, .padding = 0}));
  model.then("tokens", ImageTokens::spec());
  const TokenMasking masking{.tokens = 16, .ratio = 0.25, .number = 3};
  if (masks) model.then("mask", MaskTokens::spec(masking));
  model.then("qkv", Linear::spec({.in = 8, .out = 24}));
  model.then("attention", Attention::spec({.heads = 2}));
  model.then("proj", Linear::spec({.in = 8, .out = 8}));
  // Without a mask: a layer that takes a random stream, too, and does nothing.
  model.then("mask_token", masks ? RestoreTokens::spec(masking, 8) : DropPath::spec(0));
  model.then("flatten", Flatten::spec());
  model.then("fc", Linear::spec({.in = 128, .out = 5}));
  return model;
}

}  // namespace

TEST_CASE("masked tokens make the layers between smaller in training, and leave them as they are in evaluation") {
  const ModelSpec model = masked_attention(true);
  CHECK(model.sample(3) == Shape{12, 8});
  CHECK(model.sample(6) == Shape{12, 8});
  CHECK(model.sample(7) == Shape{16, 8});
  for (const int value : {3, 6, 7}) CHECK(model.evaluation_sample(value) == Shape{16, 8});
}

TEST_CASE("in evaluation a model gives what it gives without a mask, also where ranks redistribute its tokens") {
  ModelSpec masked = masked_attention(true);
  const std::vector<double> serial = embeddings(masked_attention(false), Mesh(), false);
  CHECK(embeddings(masked, Mesh(), false) == serial);
  for (const char* layer : {"qkv", "attention", "proj"})
    masked.place(layer, {.kind = layer[0] == 'q'   ? Parallel::column
                                 : layer[0] == 'a' ? Parallel::group
                                                   : Parallel::row,
                         .over = Axis::tp});
  for (const char* layer : {"mask", "mask_token"}) masked.place(layer, {.kind = Parallel::data, .over = Axis::tp});
  CHECK(difference(embeddings(masked, Mesh(1, 1, 2), false), serial) < 1e-12);
  CHECK(difference(embeddings(masked, Mesh(2, 1, 2), false), serial) < 1e-12);
  // The same layers draw the same tokens in training, wherever a sample is computed.
  const std::vector<double> trained = embeddings(masked, Mesh(), true);
  CHECK(difference(embeddings(masked, Mesh(2, 1, 2), true), trained) < 1e-12);
  CHECK(difference(trained, serial) > 1e-3);
  CHECK(difference(trained, embeddings(masked, Mesh(), true, 1)) > 1e-3);
}

TEST_CASE("the tokens that one layer keeps return to their places in the other, and all others become one vector") {
  const TokenMasking masking{.tokens = 64, .ratio = 0.25, .number = 1};
  ModelSpec model(Shape{8, 8, 3});
  model.then("tokens", ImageTokens::spec());
  model.then("mask", MaskTokens::spec(masking));
  model.then("mask_token", RestoreTokens::spec(masking, 3));
  model.then("flatten", Flatten::spec());
  const std::vector<double> whole = embeddings(model, Mesh(), false);
  const std::vector<double> restored = embeddings(model, Mesh(), true);
  std::set<std::vector<double>> fillings;
  int kept = 0;
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    const auto token = [i](const std::vector<double>& x) {
      const auto at = x.begin() + static_cast<std::ptrdiff_t>(i);
      return std::vector(at, at + 3);
    };
    if (token(restored) == token(whole))
      ++kept;
    else
      fillings.insert(token(restored));
  }
  CHECK(kept == 5 * 48);
  CHECK(fillings.size() == 1);
}

TEST_CASE("masking is no operator of an exported graph, whose file lacks the mask token, and a class token is") {
  const InferenceGraph masked(masked_attention(true));
  const InferenceGraph plain(masked_attention(false));
  REQUIRE(masked.nodes().size() == plain.nodes().size());
  for (std::size_t i = 0; i < plain.nodes().size(); ++i) CHECK(masked.nodes()[i].inputs == plain.nodes()[i].inputs);
  CHECK(masked.tensors().size() == plain.tensors().size() + 1);
  CHECK(!masked.reads("mask_token"));
  CHECK(masked.reads("proj.weight"));

  ModelSpec model({4, 6});
  model.then("class_token", ClassToken::spec(6));
  model.then("first", FirstToken::spec());
  const InferenceGraph graph(model);
  std::vector<std::string> operators;
  for (const InferenceNode& node : graph.nodes()) operators.push_back(node.op);
  CHECK(operators ==
        std::vector<std::string>{"Shape", "Constant", "Concat", "Expand", "Concat", "Constant", "Gather", "Identity"});
  CHECK(graph.reads("class_token"));
  CHECK(graph.tensors().front().shape == Shape{1, 1, 6});
}

TEST_CASE("a vision transformer with a mask has InsightFace's mask token behind its last norm") {
  const ModelSpec model = make_model(vit(0.25), image);
  CHECK(model.applications()[3].name == "mask");
  CHECK(model.sample(4) == Shape{12, 8});
  const std::vector<std::string> names = model.parameter_names();
  const auto token = std::find(names.begin(), names.end(), "mask_token");
  REQUIRE(token != names.end());
  CHECK(*(token - 1) == "norm.bias");
  CHECK(*(token + 1) == "feature.0.weight");
  const std::vector<std::string> plain = make_model(vit(0), image).parameter_names();
  CHECK(plain.size() + 1 == names.size());
  CHECK(std::find(plain.begin(), plain.end(), "mask_token") == plain.end());
  CHECK(TokenMasking{.tokens = 144, .ratio = 0.1}.kept() == 129);  // as InsightFace counts
  CHECK(TokenMasking{.tokens = 144, .ratio = 0.05}.kept() == 136);
  // Products that are whole but for their rounding.
  CHECK(TokenMasking{.tokens = 10, .ratio = 0.9}.kept() == 1);
  CHECK(TokenMasking{.tokens = 10, .ratio = 0.8}.kept() == 2);
  CHECK(TokenMasking{.tokens = 100, .ratio = 0.55}.kept() == 45);
}

TEST_CASE("a ratio that masks no token or all is refused") {
  CHECK(message_of<InputError>([&] { (void)make_model(vit(0.99), image); }) ==
        "mask_tokens: a ratio of 0.99 masks all of 16 tokens");
  CHECK(message_of<InputError>([&] { (void)make_model(vit(1e-18), image); }) ==
        "mask_tokens: a ratio of 1e-18 masks none of 16 tokens");
  for (const double ratio : {-0.1, 1.0})
    CHECK(message_of<InputError>([&] { (void)MaskTokens::spec({.tokens = 16, .ratio = ratio}); }) ==
          fmt::format("mask_tokens: expected a ratio in [0, 1), got {}", ratio));
}

TEST_CASE("layers of masks and class tokens that are written where they do not fit are refused") {
  const LayerConfig tokens{.type = LayerType::tokens};
  const LayerConfig mask{.name = "mask", .type = LayerType::mask_tokens, .mask_ratio = 0.25};
  const LayerConfig restore{.name = "restore", .type = LayerType::restore_tokens};
  const LayerConfig flatten{.name = "flatten", .type = LayerType::flatten};
  const LayerConfig linear{.name = "fc", .type = LayerType::linear, .linear = {.out = 4}};
  CHECK(refusal({tokens, mask, restore, flatten, linear}) == "no error");
  CHECK(refusal({mask}) == "model: mask: mask_tokens: expected tokens [n,t,d], got [n,8,8,3]: put tokens before it");
  CHECK(refusal({tokens, restore}) == "model: restore: restore_tokens: there is no mask_tokens before it");
  LayerConfig other = restore;
  other.mask = "masks";
  CHECK(refusal({tokens, mask, other}) ==
        "model: restore: restore_tokens: there is no mask_tokens \"masks\" before it");
  other.mask = "mask";
  CHECK(refusal({tokens, mask, other, flatten}) == "no error");
  other.name = "again";
  CHECK(refusal({tokens, mask, restore, other}) ==
        "model: again: restore_tokens: expected one input [n,48,3], got [1,64,3]");
  CHECK(refusal({tokens, mask, flatten, linear}) ==
        "model: fc: in evaluation: linear: expected one input [n,144] or [n,tokens,144], got [1,192]");
  CHECK(refusal({tokens, mask, {.name = "positions", .type = LayerType::position_embedding}}) ==
        "model: positions: in evaluation: position_embedding: expected one input [n,48,3], got [1,64,3]");
  CHECK(refusal({tokens, mask, flatten}) ==
        "model: \"flatten\" gives [n,144] in training and [n,192] in evaluation: put a restore_tokens after its "
        "mask_tokens");
  CHECK(refusal({{.name = "class", .type = LayerType::class_token}}) ==
        "model: class: class_token: expected tokens [n,t,d], got [n,8,8,3]: put tokens before it");
  CHECK(refusal({{.name = "first", .type = LayerType::first_token}}) ==
        "model: first: first_token: expected tokens [n,t,d], got [1,8,8,3]");
}

TEST_CASE("placements that masks and class tokens do not have are refused with the reason") {
  const TokenMasking masking{.tokens = 6, .ratio = 0.5};
  const std::string start = "layer: cannot be placed as ";
  const LayerSpecPointer mask = MaskTokens::spec(masking);
  for (const Parallel kind : {Parallel::data, Parallel::replicate, Parallel::group})
    CHECK(placement_refusal({mask}, kind) == "no error");
  CHECK(placement_refusal({mask}, Parallel::parameter) ==
        start + "parameter over tp (2 ranks): it has no parameters to shard");
  CHECK(placement_refusal({mask}, Parallel::column) ==
        start + "column over tp (2 ranks): each of its outputs comes from one channel: only group cuts it by channels");
  for (const auto& layers : {std::vector{mask, RestoreTokens::spec(masking, 4)}, std::vector{ClassToken::spec(4)}}) {
    for (const Parallel kind : {Parallel::data, Parallel::replicate})
      CHECK(placement_refusal(layers, kind) == "no error");
    CHECK(placement_refusal(layers, Parallel::parameter) ==
          start + "parameter over tp (2 ranks): its parameters are too small to be gathered");
    CHECK(placement_refusal(layers, Parallel::group) ==
          start + "group over tp (2 ranks): it works on whole samples only");
  }
}

}  // namespace heddle::test::token_masks_test
