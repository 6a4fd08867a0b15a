// A field of some of several names: read, written, described.
#include <array>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/config/document.h"
#include "experiments/config/help.h"
#include "experiments/config/schema.h"
#include "experiments/config/writer.h"
#include "framework/error.h"
#include "tests/support/message.h"

namespace heddle::test::config_subset_test {

namespace {

constexpr std::array<std::string_view, 3> colours{"red", "green", "blue"};
constexpr unsigned every = 7;

Describer::Body body_of(unsigned& value) {
  return [&value](Describer& d) { d.subset("lamps", value, colours, "all", 0, "which are lit"); };
}

unsigned read_lamps(const std::string& given, unsigned standard = every) {
  unsigned value = standard;
  read(parse_document("{\"lamps\": " + given + "}", "x.json"), body_of(value));
  return value;
}

std::string error_of_lamps(const std::string& given) {
  return message_of<InputError>([&] { (void)read_lamps(given); });
}

}  // namespace

TEST_CASE("config subset: some names are a list in any order, all names are one word, and both are written back") {
  CHECK(read_lamps("\"all\"", 1) == every);
  CHECK(read_lamps("[\"blue\", \"red\"]") == 5);
  CHECK(read_lamps("[\"green\", \"blue\", \"red\"]", 1) == every);
  CHECK(read_lamps("[]") == 0);
  const auto written = [](unsigned value) { return write_json(body_of(value)); };
  CHECK(written(every) == "{\n  \"lamps\": \"all\"\n}\n");
  CHECK(written(5) == "{\n  \"lamps\": [\"red\", \"blue\"]\n}\n");
  CHECK(written(0) == "{\n  \"lamps\": []\n}\n");
}

TEST_CASE("config subset: a value that is not a list, an unknown name and a duplicate name are reported") {
  CHECK(error_of_lamps("3") == R"(x.json: /lamps: expected "all" or a list of "red", "green" or "blue", got 3)");
  CHECK(error_of_lamps("\"red\"") ==
        R"(x.json: /lamps: expected "all" or a list of "red", "green" or "blue", got "red")");
  CHECK(error_of_lamps("[\"red\", \"blu\"]") ==
        R"(x.json: /lamps/1: expected "red", "green" or "blue", got "blu"; did you mean "blue"?)");
  CHECK(error_of_lamps("[[]]") == R"(x.json: /lamps/0: expected "red", "green" or "blue", got an empty list)");
  CHECK(error_of_lamps("[\"red\", \"green\", \"red\"]") ==
        R"(x.json: /lamps/2: expected each name once, got "red" again)");
}

TEST_CASE("config subset: schema and help show both forms") {
  unsigned value = 5;
  const auto schema = nlohmann::json::parse(schema_text(body_of(value), "Lamps"));
  const nlohmann::json expected = nlohmann::json::parse(R"({
    "oneOf": [{"const": "all"},
              {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "uniqueItems": true}],
    "default": ["red", "blue"],
    "description": "which are lit"
  })");
  CHECK(schema["properties"]["lamps"] == expected);
  const auto some = nlohmann::json::parse(
      schema_text([&](Describer& d) { d.subset("lamps", value, colours, "all", 2, "which are lit"); }, "Lamps"));
  CHECK(some["properties"]["lamps"]["oneOf"][1]["minItems"] == 2);
  CHECK(help_text(body_of(value), "lamps").find("all or a list of red | green | blue") == std::string::npos);
  const std::string help = help_text(body_of(value), "");
  CHECK(help.find("all or a list of red |") != std::string::npos);
  CHECK(help.find("[\"red\", \"blue\"]") != std::string::npos);
}

}  // namespace heddle::test::config_subset_test
