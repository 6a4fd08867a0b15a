#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "experiments/config/document.h"
#include "experiments/config/json_text.h"
#include "framework/error.h"
#include "tests/support/config_sample.h"
#include "tests/support/message.h"

namespace heddle::test {
namespace {

/// The message of the error that reading gives, or "no error".
std::string error_of_sample(const std::string& text) {
  return message_of<InputError>([&] { (void)read_sample(text); });
}

/// The error of a sample whose root also holds `members`.
std::string error_with(const std::string& members) {
  return error_of_sample(R"({"name": "a", "data": {"type": "synthetic"}, )" + members + "}");
}

}  // namespace

TEST_CASE("config reader: every kind of field is read, and absent keys keep their defaults") {
  const Sample sample = read_sample(R"({
    "name": "a", "device": "plan", "seed": -3, "tags": ["x", "y\u00e9"],
    "data": {"type": "image_folder", "path": "p", "image": [1, 56, 64]},
    "layers": [{"type": "linear", "units": 7}, {"type": "residual", "stage": 2, "layers": [{"type": "dropout"}]}],
    "train": {"batch": 3.2e1, "shuffle": false, "clip": {"norm": 2}, "optimizer": {"type": "adamw", "betas": [0, 0.5]}}
  })");
  CHECK(sample.device == SampleDevice::plan);
  CHECK(sample.seed == -3);
  CHECK(sample.tags == std::vector<std::string>{"x", "y\u00e9"});
  CHECK(sample.data.type == 1);
  CHECK(sample.data.path == "p");
  CHECK(sample.data.image == std::vector<std::int64_t>{1, 56, 64});
  REQUIRE(sample.layers.size() == 2);
  CHECK(sample.layers[0].units == 7);
  CHECK(sample.layers[1].stage == 2);
  REQUIRE(sample.layers[1].layers.size() == 1);
  CHECK(sample.layers[1].layers[0].rate == 0.5);
  CHECK(sample.train.batch == 32);
  CHECK_FALSE(sample.train.shuffle);
  CHECK(sample.train.has_clip);
  CHECK(sample.train.clip_norm == 2);
  CHECK(sample.train.optimizer.type == 1);
  CHECK(sample.train.optimizer.lr == 0.1);
  CHECK(sample.train.optimizer.betas == std::vector<double>{0, 0.5});
}

TEST_CASE("config reader: an error about a wrong type names the file, the pointer, the expected and the given value") {
  CHECK(error_with(R"("train": {"batch": "many"})") == R"(x.json: /train/batch: expected an integer >= 1, got "many")");
  CHECK(error_with(R"("train": {"shuffle": 1})") == "x.json: /train/shuffle: expected true or false, got 1");
  CHECK(error_with(R"("train": {"optimizer": {"lr": null}})") ==
        "x.json: /train/optimizer/lr: expected a number > 0, got null");
  CHECK(error_with(R"("train": [])") == "x.json: /train: expected an object, got an empty list");
  CHECK(error_with(R"("train": {"clip": 5})") == "x.json: /train/clip: expected an object or null, got 5");
  CHECK(error_with(R"("train": null)") == "x.json: /train: expected an object, got null");
  CHECK(error_with(R"("device": 0)") == R"(x.json: /device: expected "cpu", "cuda" or "plan", got 0)");
  CHECK(error_with(R"("seed": true)") == "x.json: /seed: expected an integer, got true");
  CHECK(error_with(R"("tags": "t")") == R"(x.json: /tags: expected a list of at most 3 strings, got "t")");
  CHECK(error_with(R"("tags": ["t", {}])") == "x.json: /tags/1: expected a string, got an object");
  CHECK(error_with(R"("layers": {})") == "x.json: /layers: expected a list of objects, got an object");
  CHECK(error_with(R"("layers": [{"type": "linear"}, 5])") == "x.json: /layers/1: expected an object, got 5");
  CHECK(error_of_sample(R"({"name": 1, "data": {"type": "synthetic"}})") == "x.json: /name: expected a string, got 1");
  CHECK(error_of_sample("[1, 2]") == "x.json: expected an object, got a list of 2");
  CHECK(error_with(R"("tags": ["a", "b\u0000c"])") ==
        R"(x.json: /tags/1: expected a string, got "b\u0000c" (which has a zero character))");
}

TEST_CASE("config reader: the message about a number out of its range names the range") {
  CHECK(error_with(R"("train": {"batch": 0})") == "x.json: /train/batch: expected an integer >= 1, got 0");
  CHECK(error_with(R"("train": {"optimizer": {"lr": 0}})") ==
        "x.json: /train/optimizer/lr: expected a number > 0, got 0");
  CHECK(error_with(R"("train": {"optimizer": {"momentum": 1.5}})") ==
        "x.json: /train/optimizer/momentum: expected a number from 0 to 1, got 1.5");
  CHECK(error_with(R"("layers": [{"type": "dropout", "rate": 1}])") ==
        "x.json: /layers/0/rate: expected a number >= 0 and < 1, got 1");
  CHECK(error_with(R"("train": {"optimizer": {"type": "adamw", "betas": [0.5, 2]}})") ==
        "x.json: /train/optimizer/betas/1: expected a number >= 0 and < 1, got 2");
  CHECK(error_with(R"("tags": ["a", "b", "c", "d"])") ==
        "x.json: /tags: expected a list of at most 3 strings, got a list of 4");
  CHECK(error_with(R"("layers": [{"type": "residual", "layers": []}])") ==
        "x.json: /layers/0/layers: expected a list of at least 1 object, got an empty list");
  CHECK(error_of_sample(R"({"name": "a", "data": {"type": "synthetic", "image": [1, 2]}})") ==
        "x.json: /data/image: expected a list of 3 integers >= 1, got a list of 2");
}

TEST_CASE("config reader: the first number of a list may be one of a few, of which the message has its own words") {
  const auto with_image = [](const std::string& image) {
    return error_of_sample(R"({"name": "a", "data": {"type": "synthetic", "image": )" + image + "}}");
  };
  CHECK(with_image("[3, 2, 2]") == "no error");
  CHECK(with_image("[2, 2, 2]") == "x.json: /data/image/0: expected 1 or 3 channels, got 2");
  CHECK(with_image("[0, 2, 2]") == "x.json: /data/image/0: expected an integer >= 1, got 0");
}

TEST_CASE("config reader: an integer past a bound by less than a double's precision is out of range") {
  const auto error_of_count = [](const char* count) {
    std::int64_t value = 0;
    const Describer::Body body = [&value](Describer& d) { d.field("count", value, between(0, 0x1p53), ""); };
    return message_of<InputError>(
        [&] { read(parse_document(fmt::format("{{\"count\": {}}}", count), "x.json"), body); });
  };
  CHECK(error_of_count("9007199254740992") == "no error");
  CHECK(error_of_count("9007199254740993") ==
        "x.json: /count: expected an integer from 0 to 9007199254740992, got 9007199254740993");
  CHECK(error_of_count("1e18") == "x.json: /count: expected an integer from 0 to 9007199254740992, got 1e18");
}

TEST_CASE("config reader: integers may be written 1.0 or 1e3, and are never rounded") {
  const auto seed_of = [](const std::string& number) {
    return read_sample(R"({"name": "a", "data": {"type": "synthetic"}, "seed": )" + number + "}").seed;
  };
  CHECK(seed_of("1.0") == 1);
  CHECK(seed_of("1e3") == 1000);
  CHECK(seed_of("-2.5e1") == -25);
  CHECK(seed_of("9223372036854775807") == 9223372036854775807);
  CHECK(seed_of("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  CHECK(error_with(R"("seed": 1.5)") == "x.json: /seed: expected an integer, got 1.5");
  CHECK(error_with(R"("seed": 9223372036854775808)") ==
        "x.json: /seed: expected an integer, got 9223372036854775808 (which does not fit into 64 "
        "bits)");
  CHECK(error_with(R"("seed": 9007199254740993.0)") ==
        "x.json: /seed: expected an integer, got 9007199254740993.0 (beyond 2^53, integers must be written in "
        "digits only)");
  CHECK(error_with(R"("seed": 1e300)") ==
        "x.json: /seed: expected an integer, got 1e300 (which does not fit into 64 bits)");
  CHECK(error_with(R"("seed": )" + std::string(80, '9')) ==
        "x.json: /seed: expected an integer, got " + std::string(60, '9') + "... (which does not fit into 64 bits)");
  CHECK(error_with(R"("seed": 1e999)") ==
        "x.json: line 1, column 58: /seed: expected a number below 1.8e308, got 1e999");
}

TEST_CASE("config reader: the message about an unknown key names the nearest known one, or else all of them") {
  CHECK(error_with(R"("train": {"bacth": 1})") == R"(x.json: /train/bacth: unknown key; did you mean "batch"?)");
  CHECK(error_with(R"("Seed": 1)") == R"(x.json: /Seed: unknown key; did you mean "seed"?)");
  CHECK(error_with(R"("train": {"wibble": 1})") ==
        R"(x.json: /train/wibble: unknown key; expected "batch", "shuffle", "clip" or "optimizer")");
  CHECK(error_with(R"("train": {"a/b~c": 1})") ==
        R"(x.json: /train/a~1b~0c: unknown key; expected "batch", "shuffle", "clip" or "optimizer")");
  CHECK(error_with(R"("layers": [{"type": "linear", "stages": 1}])") ==
        R"(x.json: /layers/0/stages: unknown key; did you mean "stage"?)");
  CHECK(error_with(R"("train": {"": 1})") ==
        R"(x.json: /train/: unknown key; expected "batch", "shuffle", "clip" or "optimizer")");
}

TEST_CASE(
    "config reader: the message about a key of a different alternative names the alternative to which it belongs") {
  CHECK(error_with(R"("train": {"optimizer": {"betas": [0.1, 0.2]}})") ==
        R"(x.json: /train/optimizer/betas: unknown key for type "sgd"; it belongs to type "adamw")");
}

TEST_CASE("config reader: the message about an unknown name or type names the nearest, and all that there are") {
  CHECK(error_with(R"("device": "gpu")") ==
        R"(x.json: /device: expected "cpu", "cuda" or "plan", got "gpu"; did you mean "cuda"?)");
  CHECK(error_with(R"("device": "cudo")") ==
        R"(x.json: /device: expected "cpu", "cuda" or "plan", got "cudo"; did you mean "cuda"?)");
  CHECK(
      error_of_sample(R"({"name": "a", "data": {"type": "imagefolder", "path": 3}})") ==
      R"(x.json: /data/type: expected "synthetic" or "image_folder", got "imagefolder"; did you mean "image_folder"?)");
  CHECK(error_of_sample(R"({"name": "a", "data": {"type": 7}})") ==
        R"(x.json: /data/type: expected "synthetic" or "image_folder", got 7)");
}

TEST_CASE("config reader: missing required keys are reported") {
  CHECK(error_of_sample(R"({"data": {"type": "synthetic"}})") == "x.json: /name: expected a string, got nothing");
  CHECK(error_of_sample(R"({"name": "a"})") == "x.json: /data: expected an object, got nothing");
  CHECK(error_of_sample(R"({"name": "a", "data": {}})") ==
        R"(x.json: /data/type: expected "synthetic" or "image_folder", got nothing)");
  CHECK(error_of_sample(R"({"name": "a", "data": {"type": "image_folder"}})") ==
        "x.json: /data/path: expected a string, got nothing");
}

TEST_CASE("config reader: a duplicate key is an error") {
  CHECK(error_with(R"("train": {"batch": 1, "batch": 2})") ==
        "x.json: /train/batch: duplicate key; expected each key once in an object");
}

TEST_CASE("config reader: all problems of a file are reported together, in its order, at most twenty") {
  CHECK(error_of_sample(R"({"train": {"batch": 0, "shufle": true}, "data": {"type": "x"}, "name": 4})") ==
        "x.json: /train/batch: expected an integer >= 1, got 0\n"
        "x.json: /train/shufle: unknown key; did you mean \"shuffle\"?\n"
        "x.json: /data/type: expected \"synthetic\" or \"image_folder\", got \"x\"\n"
        "x.json: /name: expected a string, got 4");
  std::string layers;
  for (int i = 0; i < 30; ++i) layers += std::string(i > 0 ? "," : "") + "{}";
  const std::string error = error_with("\"layers\": [" + layers + "]");
  CHECK(std::count(error.begin(), error.end(), '\n') == 20);
  CHECK(error.ends_with("\n... and 10 more"));
}

TEST_CASE("config reader: null makes an optional object absent") {
  CHECK_FALSE(read_sample(R"({"name": "a", "data": {"type": "synthetic"}, "train": {"clip": null}})").train.has_clip);
  CHECK(read_sample(R"({"name": "a", "data": {"type": "synthetic"}, "train": {"clip": {}}})").train.has_clip);
}

TEST_CASE("config reader: the message about bad JSON has the line, the column, the pointer and the expected token") {
  CHECK(error_of_sample("") == "x.json: line 1, column 1: expected a value, got the end");
  CHECK(error_of_sample("{\n  \"a\": 1\n  \"b\": 2\n}") == "x.json: line 3, column 5: expected '}', got a string");
  CHECK(error_of_sample("{\"a\": {\"b\": [1, 2}}") == "x.json: line 1, column 18: /a/b/2: expected ']', got '}'");
  CHECK(error_of_sample("{\"a\": NaN}") == "x.json: line 1, column 7: /a: expected a value, got NaN (invalid literal)");
  CHECK(error_of_sample("{\"a\": tru, \"b\": 1}") ==
        "x.json: line 1, column 10: /a: expected a value, got tru (invalid literal)");
  CHECK(error_of_sample("{\"a\": 1.}") ==
        "x.json: line 1, column 9: /a: expected a value, got 1. (invalid number; expected digit after '.')");
  CHECK(error_of_sample("{\"a\": \"b") ==
        "x.json: line 1, column 9: /a: expected a value, got \"b (invalid string: missing closing quote)");
  CHECK(error_of_sample("{\"a\": 01}") == "x.json: line 1, column 8: expected '}', got a number");
  CHECK(error_of_sample("{\"a\": 1,}") == "x.json: line 1, column 9: expected a string, got '}'");
  CHECK(error_of_sample("{\"a\": 1} x") == "x.json: line 1, column 10: expected the end, got x (invalid literal)");
  CHECK(error_of_sample("// no\n{}") == "x.json: line 1, column 1: expected a value, got // (invalid literal)");
  CHECK(error_of_sample("{\"a\": \"\x01\"}")
            .starts_with("x.json: line 1, column 8: /a: expected a value, got \"<U+0001>"));
  CHECK(error_of_sample("{\"a\": \"\xff\"}")
            .starts_with("x.json: line 1, column 8: /a: expected a value, got \"? (invalid"));
  CHECK(error_of_sample(std::string("{}\0{}", 5)) == "x.json: line 1, column 3: expected text, got a zero byte");
}

TEST_CASE("config reader: nesting, number of values and size are bounded") {
  CHECK(error_of_sample(std::string(100'000, '[')).ends_with("expected at most 64 levels of nesting"));
  CHECK(error_of_sample("{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}")
            .ends_with("expected at most 64 levels of nesting"));
  CHECK(
      error_of_sample("{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}").find("x.json: /a: unknown key") !=
      std::string::npos);
  std::string many = "[0";
  for (int i = 0; i < 1'000'001; ++i) many += ",0";
  CHECK(error_of_sample(many + "]") == "x.json: expected at most 1000000 values");
  CHECK(error_of_sample(std::string(max_json_bytes + 1, ' ')) == "x.json: expected at most 16 MiB");
}

TEST_CASE("config reader: a hundred thousand unknown keys are refused quickly") {
  std::string text = "{\"name\": \"a\"";
  for (int i = 0; i < 100'000; ++i) text += ",\"k" + std::to_string(i) + "\":0";
  CHECK(error_of_sample(text + "}").find("\n... and at least ") != std::string::npos);
}

TEST_CASE("config reader: a file that cannot be read names the file") {
  const auto error_of_file = [](const std::filesystem::path& path) {
    return message_of<InputError>([&] { (void)read_document(path); });
  };
  CHECK(error_of_file("no/such.json") == "no/such.json: cannot be read: No such file or directory");
  const auto folder = std::filesystem::temp_directory_path() / "heddle_config_reader_test";
  std::filesystem::create_directories(folder);
  CHECK(error_of_file(folder) == folder.string() + ": expected a file, got a folder");
  const auto large = folder / "large.json";
  std::ofstream(large) << std::string(max_json_bytes + 1, ' ');
  CHECK(error_of_file(large) == large.string() + ": expected at most 16 MiB");
  std::ofstream(large) << "{" << std::string(200'000, ' ') << "3}";
  CHECK(error_of_file(large).starts_with(large.string() + ": line 1, column 200002: "));
  std::filesystem::remove_all(folder);
}

}  // namespace heddle::test
