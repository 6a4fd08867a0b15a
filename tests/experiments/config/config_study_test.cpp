#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/config/study.h"
#include "experiments/config/writer.h"
#include "framework/error.h"
#include "tests/support/config_sample.h"
#include "tests/support/message.h"

namespace heddle::test::config_study_test {
namespace {

struct Loaded {
  ExperimentFile file;
  std::deque<Sample> samples;  // one per variant
};

Loaded load(const std::string& text, const std::vector<std::string>& sets = {}) {
  std::deque<Sample> samples;
  ExperimentFile file =
      read_experiment_text(text, "x.json", sets, [&]() -> Describer::Body { return body_of(samples.emplace_back()); });
  samples.pop_front();  // the look at the description
  return {std::move(file), std::move(samples)};
}

std::string error_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  return message_of<InputError>([&] { (void)load(text, sets); });
}

const std::string kBase = R"("name": "base", "data": {"type": "synthetic"})";

std::string with_patch(const std::string& patch, const std::string& base = kBase) {
  return "{" + base + R"(, "variants": [{"name": "v", "patch": )" + patch + "}]}";
}

std::string error_of_set(const std::string& set) {
  return error_of("{" + kBase + "}", {set});
}
Sample with_sets(const std::vector<std::string>& sets, const std::string& more = "") {
  return load("{" + kBase + more + "}", sets).samples.at(0);
}

}  // namespace

TEST_CASE("config study: a file without variants has one, named like the experiment") {
  const Loaded loaded = load(R"({"$schema": "s.json", "name": "solo", "data": {"type": "synthetic"}})");
  CHECK(loaded.file.name == "solo");
  REQUIRE(loaded.file.variants.size() == 1);
  CHECK(loaded.file.variants[0].name == "solo");
  CHECK(loaded.samples[0].name == "solo");
}

TEST_CASE("config study: each variant is the base with its own patch") {
  const Loaded loaded = load("{" + kBase + R"(, "train": {"batch": 8, "clip": {"norm": 2}}, "variants": [
    {"name": "first"},
    {"name": "second", "patch": {"train": {"batch": 4, "shuffle": false}}},
    {"name": "third", "patch": {"train": {"batch": null, "clip": null}, "tags": ["t"]}}]})");
  REQUIRE(loaded.samples.size() == 3);
  CHECK(loaded.file.variants[1].name == "second");
  CHECK(loaded.samples[0].train.batch == 8);
  CHECK(loaded.samples[1].train.batch == 4);
  CHECK_FALSE(loaded.samples[1].train.shuffle);
  CHECK(loaded.samples[1].train.has_clip);
  CHECK(loaded.samples[2].train.batch == 64);  // null: back to the default
  CHECK(loaded.samples[2].train.shuffle);
  CHECK_FALSE(loaded.samples[2].train.has_clip);
  CHECK(loaded.samples[2].tags == std::vector<std::string>{"t"});
}

TEST_CASE("config study: a patch that changes a type drops the keys of the old one") {
  const std::string base = kBase + R"(, "train": {"optimizer": {"lr": 0.5, "momentum": 0.3}})";
  const auto optimizer = [&](const std::string& patch) {
    return load(with_patch(R"({"train": {"optimizer": )" + patch + "}}", base)).samples.at(0).train.optimizer;
  };
  CHECK(optimizer(R"({"type": "adamw"})").type == 1);
  CHECK(optimizer(R"({"type": "adamw"})").lr == 0.1);
  CHECK(optimizer(R"({"betas": [0, 0], "type": "adamw"})").betas == std::vector<double>{0, 0});
  // The same type, here the default that the base leaves unsaid, drops nothing.
  CHECK(optimizer(R"({"type": "sgd"})").lr == 0.5);
  CHECK(optimizer(R"({"momentum": 0.4})").lr == 0.5);
  CHECK(error_of(with_patch(R"({"data": {"type": "image_folder"}})")) ==
        "x.json: /variants/0/patch/data/path: expected a string, got nothing");
}

TEST_CASE("config study: a changed type names the values that it discards, unless they are given again") {
  const std::string base = kBase + R"(, "train": {"optimizer": {"lr": 0.5, "momentum": 0.3}})";
  const auto warnings = [&](const std::string& patch, const std::vector<std::string>& sets = {}) {
    return load(with_patch(R"({"train": {"optimizer": )" + patch + "}}", base), sets).file.warnings;
  };
  const std::string after = ": discarded, because it belongs to the previous type; repeat it to keep it";
  using Lines = std::vector<std::string>;
  CHECK(warnings(R"({"type": "sgd"})").empty());
  CHECK(warnings(R"({"type": "adamw"})") ==
        Lines{"x.json: /train/optimizer/lr" + after, "x.json: /train/optimizer/momentum" + after});
  CHECK(warnings(R"({"type": "adamw", "lr": 0.5})") == Lines{"x.json: /train/optimizer/momentum" + after});
  CHECK(warnings(R"({"lr": 0.4, "momentum": 0.2})", {"train.optimizer.type=adamw"}) ==
        Lines{"x.json: /variants/0/patch/train/optimizer/lr" + after,
              "x.json: /variants/0/patch/train/optimizer/momentum" + after});
  CHECK(warnings("{}", {"train.optimizer.type=adamw", "train.optimizer.lr=0.4"}) ==
        Lines{"x.json: /train/optimizer/momentum" + after});
}

TEST_CASE("config study: a setting that overrides the patches of variants names them") {
  const std::string text = "{" + kBase + R"(, "train": {"batch": 8}, "variants": [
    {"name": "plain"},
    {"name": "small", "patch": {"train": {"batch": 4}}},
    {"name": "four", "patch": {"train": {"batch": 4, "clip": {"norm": 2}}}},
    {"name": "default", "patch": {"train": null}}]})";
  using Lines = std::vector<std::string>;
  CHECK(load(text, {"train.batch=4"}).file.warnings ==
        Lines{R"(--set train.batch: overrides the patch of the variant "default")"});
  CHECK(load(text, {"train.batch=2", "train.clip.norm=2"}).file.warnings ==
        Lines{R"(--set train.batch: overrides the patch of the variants "small", "four", "default")",
              R"(--set train.clip.norm: overrides the patch of the variant "default")"});
  CHECK(load(text, {"tags=[\"t\"]"}).file.warnings.empty());
}

TEST_CASE("config study: an error in a value from a patch points into the patch") {
  CHECK(error_of("{" + kBase + R"(, "variants": [{"name": "a"}, {"name": "b"},
                  {"name": "c", "patch": {"train": {"batch": "many"}}}]})") ==
        R"(x.json: /variants/2/patch/train/batch: expected an integer >= 1, got "many")");
  CHECK(error_of(with_patch(R"({"train": {"bacth": 1}})")) ==
        R"(x.json: /variants/0/patch/train/bacth: unknown key; did you mean "batch"?)");
  CHECK(error_of(with_patch(R"({"trian": null})")) ==
        R"(x.json: /variants/0/patch/trian: unknown key; did you mean "train"?)");
  CHECK(error_of(with_patch(R"({"data": null})")) == "x.json: /variants/0/patch/data: expected an object, got nothing");
  CHECK(error_of(with_patch(R"({"tags": ["a", 4]})")) == "x.json: /variants/0/patch/tags/1: expected a string, got 4");
  CHECK(error_of(with_patch(R"({"train": {"batch": 1, "batch": 2}})")) ==
        "x.json: /variants/0/patch/train/batch: duplicate key; expected each key once in an object");
}

TEST_CASE("config study: a wrong value of the base is reported once, not once for each variant") {
  CHECK(error_of("{" + kBase + R"(, "seed": "s", "variants": [{"name": "a"}, {"name": "b"}]})") ==
        R"(x.json: /seed: expected an integer, got "s")");
}

TEST_CASE("config study: the form of the list of variants is checked") {
  const auto error = [](const std::string& variants) {
    return error_of("{" + kBase + R"(, "variants": )" + variants + "}");
  };
  CHECK(error("3") == "x.json: /variants: expected a list of objects, got 3");
  CHECK(error("[3]") == "x.json: /variants/0: expected an object, got 3");
  CHECK(error("[{}]") == "x.json: /variants/0/name: expected a name that a folder can have, got nothing");
  CHECK(error(R"([{"name": ""}])") == R"(x.json: /variants/0/name: expected a name that a folder can have, got "")");
  CHECK(error(R"([{"name": "a/b"}])") ==
        R"(x.json: /variants/0/name: expected a name that a folder can have, got "a/b")");
  CHECK(error(R"([{"name": ".."}])") ==
        R"(x.json: /variants/0/name: expected a name that a folder can have, got "..")");
  CHECK(error(R"([{"name": "a"}, {"name": "a"}])") ==
        R"(x.json: /variants/1/name: expected a name of its own, got "a" again)");
  CHECK(error(R"([{"name": "a", "patch": 1}])") == "x.json: /variants/0/patch: expected an object, got 1");
  CHECK(error(R"([{"name": "a", "pach": {}}])") == R"(x.json: /variants/0/pach: unknown key; did you mean "patch"?)");
  CHECK(error(R"([{"name": "a", "patch": {"name": "b"}}])") ==
        R"(x.json: /variants/0/patch/name: a patch cannot change "name")");
  CHECK(error(R"([{"name": "a", "patch": {"variants": []}}])") ==
        R"(x.json: /variants/0/patch/variants: a patch cannot change "variants")");
}

TEST_CASE("config study: the keys around the root are checked, too") {
  CHECK(error_of("{" + kBase + R"(, "$schema": 1})") == "x.json: /$schema: expected a string, got 1");
  CHECK(error_of("{" + kBase + R"(, "varients": []})") ==
        R"(x.json: /varients: unknown key; did you mean "variants"?)");
  CHECK(error_of(R"({"name": "a/b", "data": {"type": "synthetic"}})") ==
        R"(x.json: /name: expected a name that a folder can have, got "a/b")");
}

TEST_CASE("config study: --set is applied after the patches, and a value that is not JSON is a string") {
  const Loaded loaded = load(with_patch(R"({"train": {"batch": 4}})"), {"train.batch=2", "name=new", "tags=[\"5\"]"});
  CHECK(loaded.samples[0].train.batch == 2);
  CHECK(loaded.file.name == "new");
  CHECK(loaded.file.variants[0].name == "v");
  CHECK(loaded.samples[0].tags == std::vector<std::string>{"5"});
  CHECK(with_sets({"data.type=image_folder", "data.path=a=b c"}).data.path == "a=b c");
  CHECK(with_sets({"data.type=image_folder", "data.path="}).data.path.empty());
  CHECK(with_sets({R"(train={"clip": {"norm": 3}})"}).train.clip_norm == 3);
  CHECK_FALSE(with_sets({"train.clip=null"}, R"(, "train": {"clip": {}})").train.has_clip);
}

TEST_CASE("config study: --set accepts a type and its fields in any order") {
  const SampleOptimizer optimizer = with_sets({"train.optimizer.lr=0.7", "train.optimizer.type=adamw"}).train.optimizer;
  CHECK(optimizer.type == 1);
  CHECK(optimizer.lr == 0.7);
}

TEST_CASE("config study: --set reaches into lists by index") {
  const std::string layers =
      R"(, "layers": [{"type": "linear"}, {"type": "residual", "layers": [{"type": "linear"}]}])";
  const Sample sample =
      with_sets({"layers.0.units=3", "layers.1.layers.0.type=dropout", "layers.1.layers.0.rate=0.1"}, layers);
  CHECK(sample.layers[0].units == 3);
  CHECK(sample.layers[1].layers[0].type == 1);
  CHECK(sample.layers[1].layers[0].rate == 0.1);
  CHECK(with_sets({"tags.1=z"}, R"(, "tags": ["a", "b"])").tags == std::vector<std::string>{"a", "z"});
  CHECK(error_of("{" + kBase + layers + "}", {"layers.2.units=3"}) ==
        R"(--set layers.2.units: expected an index below 2, got "2")");
}

TEST_CASE("config study: an error in a --set names it") {
  CHECK(error_of_set("train.batch=many") == R"(--set train.batch: expected an integer >= 1, got "many")");
  CHECK(error_of_set("train.batch=[1,2") == R"(--set train.batch: expected an integer >= 1, got "[1,2")");
  CHECK(error_of_set(R"(train={"optimizer": {"lr": -1}})") ==
        "--set train: /train/optimizer/lr: expected a number > 0, got -1");
  CHECK(error_of_set("trian.batch=3") == R"(--set trian.batch: /trian: unknown key; did you mean "train"?)");
  CHECK(error_of_set("train.bacth=3") == R"(--set train.bacth: unknown key; did you mean "batch"?)");
  CHECK(error_of_set("train.bacth=null") == R"(--set train.bacth: unknown key; did you mean "batch"?)");
  CHECK(error_of_set("train") == "--set train: expected a.b=value");
  CHECK(error_of_set("=3") == "--set =3: expected a.b=value");
  CHECK(error_of_set("a..b=3") == "--set a..b=3: expected names between the dots");
  CHECK(error_of_set("variants=[]") == R"(--set variants: "variants" cannot be set on the command line)");
  CHECK(error_of_set(R"(train={"batch": 1, "batch": 2})") ==
        "--set train: /batch: duplicate key; expected each key once in an object");
}

TEST_CASE("config study: a document knows the origin of a value, for errors that no description finds") {
  const Loaded loaded = load(with_patch(R"({"train": {"batch": 4, "optimizer": {"lr": 1}}})"), {"seed=2"});
  const Document& document = loaded.file.variants[0].document;
  CHECK(document.where("/train/batch") == "x.json: /variants/0/patch/train/batch");
  CHECK(document.where("/train/optimizer/momentum") == "x.json: /variants/0/patch/train/optimizer/momentum");
  CHECK(document.where("/data/image/0") == "x.json: /data/image/0");
  CHECK(document.where("/seed") == "--set seed");
  CHECK(document.where("") == "x.json");
}

TEST_CASE("config study: a file is read into structs that describe themselves") {
  const auto path = std::filesystem::temp_directory_path() / "heddle_config_study_test.json";
  std::ofstream(path) << with_patch(R"({"train": {"batch": 4}})");
  const std::vector<std::string> sets = {"seed=9"};
  const Study<Sample> study = read_study<Sample>(path, sets);
  std::filesystem::remove(path);
  CHECK(study.name == "base");
  REQUIRE(study.variants.size() == 1);
  CHECK(study.variants[0].name == "v");
  CHECK(study.variants[0].root.train.batch == 4);
  CHECK(study.variants[0].root.seed == 9);
}

TEST_CASE("config study: many variants of a large base are refused before memory runs out") {
  std::string text = "{" + kBase + ", \"x\": [0";
  for (int i = 0; i < 5000; ++i) text += ",0";
  text += "], \"variants\": [{\"name\": \"n\"}";
  for (int i = 0; i < 1000; ++i) text += ",{\"name\": \"n" + std::to_string(i) + "\"}";
  CHECK(error_of(text + "]}") == "x.json: /variants: expected at most 5000000 values in all variants together");
}

}  // namespace heddle::test::config_study_test
