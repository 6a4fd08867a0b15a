// A small experiment of every kind of field, for the tests of the reader.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/config/document.h"
#include "framework/description/describe.h"

namespace heddle::test {
enum class SampleDevice { cpu, cuda, plan };
}  // namespace heddle::test

template <>
inline constexpr auto heddle::enum_names<heddle::test::SampleDevice> = heddle::enum_table<heddle::test::SampleDevice>({
    {heddle::test::SampleDevice::cpu, "cpu"},
    {heddle::test::SampleDevice::cuda, "cuda"},
    {heddle::test::SampleDevice::plan, "plan"},
});

namespace heddle::test {

inline constexpr std::array<std::int64_t, 2> sample_channels{1, 3};

struct SampleData {
  int type = -1;  // no default: it must be given
  std::string path;
  std::int64_t identities = 100;
  std::vector<std::int64_t> image = {3, 112, 112};
};
inline void describe(Describer& d, SampleData& c) {
  const auto image = [&c](Describer& inner) {
    Key key("image");
    key.first = {sample_channels, "1 or 3 channels"};
    inner.field(key, c.image, at_least(1), between(3, 3), "channels, height and width");
  };
  const Describer::Alternative kinds[] = {
      {"synthetic", "drawn images",
       [&](Describer& inner) {
         inner.field("identities", c.identities, at_least(2), "how many people are drawn");
         image(inner);
       }},
      {"image_folder", "one folder per person",
       [&](Describer& inner) {
         inner.field(required("path"), c.path, "the folder");
         image(inner);
       }},
  };
  d.alternatives(c.type, kinds, "where the images come from");
}

struct SampleLayer {
  int type = -1;
  std::int64_t stage = 0;
  std::int64_t units = 64;
  double rate = 0.5;
  std::vector<SampleLayer> layers;
};
inline void describe(Describer& d, SampleLayer& c) {
  d.field("stage", c.stage, at_least(0), "the stage that holds the layer");
  const Describer::Alternative kinds[] = {
      {"linear", "", [&](Describer& inner) { inner.field("units", c.units, at_least(1), "outputs"); }},
      {"dropout", "", [&](Describer& inner) { inner.field("rate", c.rate, from_to_below(0, 1), "share dropped"); }},
      {"residual", "",
       [&](Describer& inner) { list(inner, "layers", c.layers, at_least(1), "what the skip goes around"); }},
  };
  d.alternatives(c.type, kinds, "what the layer does");
}

struct SampleOptimizer {
  int type = 0;
  double lr = 0.1;
  double momentum = 0.9;
  std::vector<double> betas = {0.9, 0.999};
};
inline void describe(Describer& d, SampleOptimizer& c) {
  const auto lr = [&c](Describer& inner) { inner.field("lr", c.lr, above(0), "learning rate"); };
  const Describer::Alternative kinds[] = {
      {"sgd", "gradient descent with momentum",
       [&](Describer& inner) {
         lr(inner);
         inner.field("momentum", c.momentum, between(0, 1), "share of the last step that is kept");
       }},
      {"adamw", "Adam with decoupled weight decay",
       [&](Describer& inner) {
         lr(inner);
         inner.field("betas", c.betas, from_to_below(0, 1), between(2, 2), "decay of the two moments");
       }},
  };
  d.alternatives(c.type, kinds, "which rule");
}

struct SampleTrain {
  std::int64_t batch = 64;
  bool shuffle = true;
  bool has_clip = false;
  double clip_norm = 5;
  SampleOptimizer optimizer;
};
inline void describe(Describer& d, SampleTrain& c) {
  d.field("batch", c.batch, at_least(1), "samples of a step, over all ranks");
  d.field("shuffle", c.shuffle, "draw the samples in a new order every epoch");
  d.optional_object(
      "clip", c.has_clip,
      [&c](Describer& inner) { inner.field("norm", c.clip_norm, above(0), "largest norm of the gradient"); },
      "clips the gradient; null leaves it alone");
  object(d, "optimizer", c.optimizer, "how the weights follow the gradient");
}

struct Sample {
  std::string name;
  SampleDevice device = SampleDevice::cpu;
  std::int64_t seed = 1;
  std::vector<std::string> tags;
  SampleData data;
  std::vector<SampleLayer> layers;
  SampleTrain train;
};
inline void describe(Describer& d, Sample& c) {
  d.field(required("name"), c.name, "names the results folder");
  choice(d, "device", c.device, "what computes");
  d.field("seed", c.seed, any_number(), "of all random numbers");
  d.field("tags", c.tags, between(0, 3), "words to find it by");
  object(d, required("data"), c.data, "the images");
  list(d, "layers", c.layers, any_number(), "the layers, first to last");
  object(d, "train", c.train, "the training");
}

inline Describer::Body body_of(Sample& sample) {
  return [&sample](Describer& d) { describe(d, sample); };
}

inline Sample read_sample(const std::string& text) {
  Sample sample;
  read(parse_document(text, "x.json"), body_of(sample));
  return sample;
}

}  // namespace heddle::test
