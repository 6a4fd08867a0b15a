#include <algorithm>
#include <cmath>
#include <deque>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/config/document.h"
#include "experiments/config/help.h"
#include "experiments/config/schema.h"
#include "experiments/config/study.h"
#include "experiments/config/writer.h"
#include "framework/error.h"
#include "tests/support/config_sample.h"
#include "tests/support/message.h"

namespace heddle::test {
namespace {

std::string help_of(const std::string& path) {
  Sample sample;
  return help_text(body_of(sample), path);
}

std::string help_error(const std::string& path) {
  return message_of<InputError>([&] { (void)help_of(path); });
}

}  // namespace

TEST_CASE("config writer: every default is filled in, keys in the order of description") {
  Sample sample = read_sample(R"({"data": {"type": "synthetic"}, "layers": [{"type": "dropout", "rate": 0.25}],
                                "name": "a"})");
  CHECK(write_json(body_of(sample)) == R"({
  "name": "a",
  "device": "cpu",
  "seed": 1,
  "tags": [],
  "data": {
    "type": "synthetic",
    "identities": 100,
    "image": [3, 112, 112]
  },
  "layers": [
    {"type": "dropout", "stage": 0, "rate": 0.25}
  ],
  "train": {
    "batch": 64,
    "shuffle": true,
    "clip": null,
    "optimizer": {
      "type": "sgd",
      "lr": 0.1,
      "momentum": 0.9
    }
  }
}
)");
}

TEST_CASE("config writer: a written text reads back unchanged, numbers to the last bit") {
  Sample sample = read_sample(R"({"name": "q\"\u0001é", "data": {"type": "image_folder", "path": "p"},
    "train": {"clip": {}, "optimizer": {"type": "adamw", "lr": 0.1}}, "seed": 9223372036854775807})");
  sample.train.optimizer.lr = std::nextafter(0.1, 1);
  sample.train.clip_norm = 1e300;
  const std::string text = write_json(body_of(sample));
  Sample again = read_sample(text);
  CHECK(again.train.optimizer.lr == sample.train.optimizer.lr);
  CHECK(again.train.clip_norm == sample.train.clip_norm);
  CHECK(again.seed == sample.seed);
  CHECK(again.name == sample.name);
  CHECK(write_json(body_of(again)) == text);
}

TEST_CASE("config writer: a study is written as a base and patches that read back the same") {
  std::deque<Sample> samples;
  const auto make = [&]() -> Describer::Body { return body_of(samples.emplace_back()); };
  const ExperimentFile file = read_experiment_text(R"({"name": "n", "data": {"type": "synthetic"},
    "train": {"clip": {"norm": 2}}, "variants": [{"name": "a"},
    {"name": "b", "patch": {"train": {"clip": null, "optimizer": {"type": "adamw", "lr": 0.5}}}},
    {"name": "c", "patch": {"layers": [{"type": "linear"}], "data": {"type": "image_folder", "path": "p"}}}]})",
                                                   "x.json", {}, make);
  samples.pop_front();
  std::vector<NamedBody> bodies;
  for (std::size_t i = 0; i < 3; ++i) bodies.push_back({file.variants[i].name, body_of(samples[i])});
  const std::string written = write_experiment(bodies);
  CHECK(written.find(R"(      "name": "b",
      "patch": {
        "train": {
          "clip": null,
          "optimizer": {
            "type": "adamw",
            "lr": 0.5,
            "betas": [0.9, 0.999]
          }
        }
      })") != std::string::npos);
  const std::size_t before = samples.size();
  const ExperimentFile again = read_experiment_text(written, "y.json", {}, make);
  CHECK(again.name == "n");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(again.variants[i].name == file.variants[i].name);
    CHECK(write_json(body_of(samples[before + 1 + i])) == write_json(body_of(samples[i])));
  }
}

TEST_CASE("config writer: a short text leaves out what has its default, and reads back the same") {
  const Sample sample = read_sample(R"({"data": {"type": "synthetic"}, "name": "a", "train": {"clip": {}, "batch": 32},
    "layers": [{"type": "dropout", "rate": 0.25}, {"type": "linear"}]})");
  Sample written = sample;
  Sample defaults;
  const std::vector<NamedBody> bodies{{"a", body_of(written)}};
  const std::string text = write_short_experiment(bodies, body_of(defaults));
  CHECK(text == R"({
  "name": "a",
  "data": {
    "type": "synthetic"
  },
  "layers": [
    {"type": "dropout", "rate": 0.25},
    {"type": "linear"}
  ],
  "train": {
    "batch": 32,
    "clip": {}
  }
}
)");
  Sample again = read_sample(text);
  CHECK(write_json(body_of(again)) == write_json(body_of(written)));
}

TEST_CASE("config writer: a short study has patches on its base, which read back the same") {
  std::deque<Sample> samples;
  const auto make = [&]() -> Describer::Body { return body_of(samples.emplace_back()); };
  const ExperimentFile file = read_experiment_text(R"({"name": "n", "data": {"type": "image_folder", "path": "p"},
    "variants": [{"name": "a", "patch": {"train": {"batch": 32}}}, {"name": "b", "patch": {"data": {"type": "synthetic"}}}]})",
                                                   "x.json", {}, make);
  samples.pop_front();
  std::vector<NamedBody> bodies;
  for (std::size_t i = 0; i < 2; ++i) bodies.push_back({file.variants[i].name, body_of(samples[i])});
  Sample defaults;
  const std::string written = write_short_experiment(bodies, body_of(defaults));
  const std::size_t before = samples.size();
  const ExperimentFile again = read_experiment_text(written, "y.json", {}, make);
  REQUIRE(again.variants.size() == 2);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(write_json(body_of(samples[before + 1 + i])) == write_json(body_of(samples[i])));
}

TEST_CASE("config writer: a number that JSON cannot hold is an error") {
  Sample sample;
  sample.train.optimizer.lr = std::nan("");
  CHECK_THROWS_WITH_AS(write_json(body_of(sample)), "JSON cannot hold the number nan", Error);
}

TEST_CASE("config description: a key that is described twice is an error") {
  const Describer::Body body = [](Describer& d) {
    bool flag = false;
    d.field("a", flag, "");
    d.field("a", flag, "");
  };
  CHECK_THROWS_WITH_AS(write_json(body), "the key \"a\" is described twice", Error);
}

TEST_CASE("config schema: it contains types, ranges, defaults, help, unions and recursion") {
  Sample sample;
  const auto schema = nlohmann::json::parse(schema_text(body_of(sample), "Experiment"));
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["title"] == "Experiment");
  CHECK(schema["required"] == nlohmann::json::array({"name", "data"}));
  CHECK(schema["additionalProperties"] == false);
  const auto& properties = schema["properties"];
  CHECK(properties["device"] == nlohmann::json::parse(R"({"enum": ["cpu", "cuda", "plan"], "default": "cpu",
                                                          "description": "what computes"})"));
  CHECK(properties["tags"] == nlohmann::json::parse(R"({"type": "array", "items": {"type": "string"}, "maxItems": 3,
                                                        "default": [], "description": "words to find it by"})"));
  const auto& train = properties["train"]["properties"];
  CHECK(train["batch"] == nlohmann::json::parse(R"({"type": "integer", "minimum": 1, "default": 64,
                                                    "description": "samples of a step, over all ranks"})"));
  CHECK(train["clip"]["type"] == nlohmann::json::array({"object", "null"}));
  CHECK(train["clip"]["properties"]["norm"]["exclusiveMinimum"] == 0);
  const auto& optimizer = train["optimizer"]["oneOf"];
  REQUIRE(optimizer.size() == 2);
  CHECK_FALSE(optimizer[0].contains("required"));  // sgd is the default
  CHECK(optimizer[1]["required"] == nlohmann::json::array({"type"}));
  CHECK(optimizer[1]["properties"]["type"]["const"] == "adamw");
  CHECK(optimizer[1]["additionalProperties"] == false);
  CHECK(properties["data"]["oneOf"][1]["required"] == nlohmann::json::array({"type", "path"}));
  CHECK(properties["data"]["oneOf"][0]["properties"]["image"] == nlohmann::json::parse(R"({
    "type": "array", "prefixItems": [{"enum": [1, 3]}], "items": {"type": "integer", "minimum": 1}, "minItems": 3,
    "maxItems": 3, "default": [3, 112, 112], "description": "channels, height and width"})"));
  CHECK(properties["layers"]["items"]["oneOf"][2]["properties"]["layers"]["items"]["$ref"] ==
        "#/properties/layers/items");
  CHECK(properties["variants"]["items"]["required"] == nlohmann::json::array({"name"}));
  CHECK(properties.contains("$schema"));
}

TEST_CASE("config schema: a variant's patch has the keys of the experiment, may remove them and requires none") {
  Sample sample;
  const auto schema = nlohmann::json::parse(schema_text(body_of(sample), "Experiment"));
  const auto& variant = schema["properties"]["variants"]["items"]["properties"];
  const auto& patch = variant["patch"];
  CHECK(patch["additionalProperties"] == false);
  CHECK_FALSE(patch.contains("required"));
  CHECK_FALSE(patch["properties"].contains("name"));
  CHECK_FALSE(patch["properties"].contains("variants"));
  const auto& train = patch["properties"]["train"]["anyOf"];
  REQUIRE(train.size() == 2);
  CHECK(train[1] == nlohmann::json::parse(R"({"type": "null"})"));
  CHECK(train[0]["additionalProperties"] == false);
  CHECK(train[0]["properties"]["batch"] ==
        nlohmann::json::parse(R"({"anyOf": [{"$ref": "#/properties/train/properties/batch"}, {"type": "null"}]})"));
  const auto& optimizer = train[0]["properties"]["optimizer"]["anyOf"][0];
  CHECK(optimizer["properties"]["type"]["anyOf"][0] == nlohmann::json::parse(R"({"enum": ["sgd", "adamw"]})"));
  CHECK(optimizer["properties"]["lr"]["anyOf"].size() == 3);  // sgd's, adamw's and null
  CHECK_FALSE(optimizer.contains("required"));
}

TEST_CASE("config schema: a patch that names a type has no keys of other types, and no variant is there twice") {
  Sample sample;
  const auto schema = nlohmann::json::parse(schema_text(body_of(sample), "Experiment"));
  const auto& variants = schema["properties"]["variants"];
  CHECK(variants["uniqueItems"] == true);
  const auto& train = variants["items"]["properties"]["patch"]["properties"]["train"]["anyOf"][0];
  const auto& rules = train["properties"]["optimizer"]["anyOf"][0]["allOf"];
  REQUIRE(rules.size() == 2);
  CHECK(rules[0]["if"] == nlohmann::json::parse(R"({"properties": {"type": {"const": "sgd"}}, "required": ["type"]})"));
  CHECK(rules[0]["then"] == nlohmann::json::parse(R"({"propertyNames": {"enum": ["type", "lr", "momentum"]}})"));
  CHECK(rules[1]["then"] == nlohmann::json::parse(R"({"propertyNames": {"enum": ["type", "lr", "betas"]}})"));
}

TEST_CASE("config schema: the names of experiment and variants can be those of folders") {
  Sample sample;
  const auto schema = nlohmann::json::parse(schema_text(body_of(sample), "Experiment"));
  const auto& variant = schema["properties"]["variants"]["items"]["properties"];
  for (const auto& name : {schema["properties"]["name"], variant["name"]}) {
    CHECK(name["maxLength"] == 100);
    CHECK(name["pattern"] == R"(^(?![.\- ])(?!.*[. ]$)[^/\\:*?"<>|\x00-\x1f]+$)");
  }
}

TEST_CASE("config help: an object shows its fields as a table") {
  CHECK(help_of("train") == R"(train: the training
  name       value           default  meaning
  batch      integer >= 1    64       samples of a step, over all ranks
  shuffle    true or false   true     draw the samples in a new order every epoch
  clip       object or null  null     clips the gradient; null leaves it alone
  optimizer  object          sgd      how the weights follow the gradient
)");
  CHECK(help_of("data.image_folder") == R"(data.image_folder: the images
  name  value                     default   meaning
  type  synthetic | image_folder  required  where the images come from

type "image_folder": one folder per person
  name   value                    default        meaning
  path   string                   required       the folder
  image  list of 3 integers >= 1  [3, 112, 112]  channels, height and width
)");
  CHECK(help_of("train.batch") == R"(train.batch: samples of a step, over all ranks
  name   value         default  meaning
  batch  integer >= 1  64       samples of a step, over all ranks
)");
}

TEST_CASE("config help: every page fits 100 columns") {
  for (const char* path : {"", "data", "layers", "layers.linear", "layers.layers.units", "train.optimizer"}) {
    std::istringstream lines(help_of(path));
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  }
  const Describer::Body body = [](Describer& d) {
    std::string text(300, 'x');
    d.field("a_name_that_is_longer_than_its_column", text, std::string(250, 'y') + " and some words more");
  };
  std::istringstream lines(help_text(body, ""));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

TEST_CASE("config help: the error about a wrong path names the nearest one") {
  CHECK(help_error("train.bacth") == R"(help train.bacth: no such option; did you mean "train.batch"?)");
  CHECK(help_error("train.optimizer.adam") ==
        R"(help train.optimizer.adam: no such option; did you mean "train.optimizer.adamw"?)");
  CHECK(help_error("train.wibble") ==
        R"(help train.wibble: no such option; expected "batch", "shuffle", "clip" or "optimizer")");
  CHECK(help_error("seed.x") == "help seed.x: no such option");
}

}  // namespace heddle::test
