// A key that holds an object or a list of such objects: read, written, patched, set, described.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/config/document.h"
#include "experiments/config/fields.h"
#include "experiments/config/first_change.h"
#include "experiments/config/help.h"
#include "experiments/config/schema.h"
#include "experiments/config/study.h"
#include "experiments/config/writer.h"
#include "framework/description/plain_text.h"
#include "framework/error.h"
#include "tests/support/message.h"

namespace heddle::test::config_object_or_list_test {

namespace {

struct Lamp {
  std::int64_t watts = 40;
  std::string shade = "none";
  bool operator==(const Lamp&) const = default;
};

void describe(Describer& d, Lamp& c) {
  d.field(required("watts"), c.watts, between(1, 100), "its power");
  d.field("shade", c.shade, "what is around it");
}

struct Room {
  std::string name = "room";
  Lamp lamp;
  std::vector<Lamp> further;
};

void describe(Describer& d, Room& c) {
  d.field("name", c.name, "its name");
  object_or_list(d, required("lamp"), c.lamp, c.further, between(1, 3), "what lights it");
}

Study<Room> study(const std::string& text, const std::vector<std::string>& sets = {}) {
  return read_study_text<Room>(text, "x.json", sets);
}
Room room(const std::string& lamp, const std::vector<std::string>& sets = {}) {
  return study(R"({"name": "r", "lamp": )" + lamp + "}", sets).variants.at(0).root;
}
std::string error_of(const std::string& lamp, const std::vector<std::string>& sets = {}) {
  return message_of<InputError>([&] { (void)room(lamp, sets); });
}
std::vector<std::int64_t> watts(const Room& of) {
  std::vector<std::int64_t> all{of.lamp.watts};
  for (const Lamp& lamp : of.further) all.push_back(lamp.watts);
  return all;
}

std::string written(Room value) {
  return write_json([&](Describer& d) { describe(d, value); });
}

constexpr const char* two = R"([{"watts": 5, "shade": "red"}, {"watts": 7}])";

}  // namespace

TEST_CASE("config object or list: an object is a list of one, and a list of one is written back as the object") {
  CHECK(watts(room(R"({"watts": 5})")) == std::vector<std::int64_t>{5});
  CHECK(watts(room(R"([{"watts": 5}])")) == std::vector<std::int64_t>{5});
  const Room both = room(two);
  CHECK(watts(both) == std::vector<std::int64_t>{5, 7});
  CHECK(both.lamp.shade == "red");
  CHECK(both.further[0].shade == "none");
  CHECK(written(room(R"([{"watts": 5}])")) == written(room(R"({"watts": 5})")));
  CHECK(written(room(R"({"watts": 5})")) ==
        "{\n  \"name\": \"r\",\n  \"lamp\": {\n    \"watts\": 5,\n    \"shade\": \"none\"\n  }\n}\n");
  const nlohmann::json list = nlohmann::json::parse(written(both))["lamp"];
  CHECK(list == nlohmann::json::parse(R"([{"watts": 5, "shade": "red"}, {"watts": 7, "shade": "none"}])"));
  CHECK(watts(room(list.dump())) == std::vector<std::int64_t>{5, 7});
}

TEST_CASE("config object or list: what is neither, and what is wrong inside, is reported with its place") {
  const std::string expected = "expected an object or a list of 1 to 3 objects, got ";
  CHECK(error_of("5") == "x.json: /lamp: " + expected + "5");
  CHECK(error_of("[]") == "x.json: /lamp: " + expected + "an empty list");
  CHECK(error_of(R"([{"watts": 1}, {"watts": 1}, {"watts": 1}, {"watts": 1}])") ==
        "x.json: /lamp: " + expected + "a list of 4");
  CHECK(error_of("null") == "x.json: /lamp: " + expected + "null");
  CHECK(message_of<InputError>([] { (void)study(R"({"name": "r"})"); }) ==
        "x.json: /lamp: " + expected.substr(0, expected.size() - 4) + "got nothing");
  CHECK(error_of(R"([{"watts": 5}, 3])") == "x.json: /lamp/1: expected an object, got 3");
  CHECK(error_of(R"([{"watts": 5}, {"shade": "red"}])") ==
        "x.json: /lamp/1/watts: expected an integer from 1 to 100, got nothing");
  CHECK(error_of(R"([{"watts": 5}, {"watts": 6, "shad": "red"}])") ==
        "x.json: /lamp/1/shad: unknown key; did you mean \"shade\"?");
}

TEST_CASE("config object or list: --set reaches each form, and an object also as the list's first element") {
  CHECK(watts(room(two, {"lamp.1.watts=9"})) == std::vector<std::int64_t>{5, 9});
  CHECK(watts(room(R"({"watts": 5})", {"lamp.watts=9"})) == std::vector<std::int64_t>{9});
  CHECK(watts(room(R"({"watts": 5})", {"lamp.0.watts=9"})) == std::vector<std::int64_t>{9});
  CHECK(watts(room(R"([{"watts": 5}])", {"lamp.0.watts=9"})) == std::vector<std::int64_t>{9});
  CHECK(watts(room(R"({"watts": 5})", {"lamp=[{\"watts\": 1}, {\"watts\": 2}]"})) == std::vector<std::int64_t>{1, 2});
  CHECK(error_of(two, {"lamp.watts=9"}) == R"(--set lamp.watts: expected an index below 2, got "watts")");
  CHECK(error_of(two, {"lamp.2.watts=9"}) == R"(--set lamp.2.watts: expected an index below 2, got "2")");
  CHECK(error_of(R"({"watts": 5})", {"lamp.0.0.watts=9"}) ==
        "--set lamp.0.0.watts: /lamp/0: unknown key; expected \"watts\" or \"shade\"");
}

TEST_CASE("config object or list: a patch replaces a list, and a file of variants of both forms reads back") {
  const Study<Room> read = study(R"({"name": "r", "lamp": {"watts": 5}, "variants": [
    {"name": "one", "patch": {"lamp": {"shade": "blue"}}},
    {"name": "two", "patch": {"lamp": [{"watts": 1}, {"watts": 2}]}}]})");
  CHECK(read.variants[0].root.lamp == Lamp{5, "blue"});
  CHECK(watts(read.variants[1].root) == std::vector<std::int64_t>{1, 2});
  std::vector<Room> rooms{read.variants[0].root, read.variants[1].root};
  for (const bool is_turned : {false, true}) {
    if (is_turned) std::swap(rooms[0], rooms[1]);
    std::vector<NamedBody> bodies;
    for (Room& each : rooms)
      bodies.push_back(
          {is_turned ? "b" + each.lamp.shade : "a" + each.lamp.shade, [&each](Describer& d) { describe(d, each); }});
    const Study<Room> again = study(write_experiment(bodies));
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(watts(again.variants[i].root) == watts(rooms[i]));
      CHECK(again.variants[i].root.lamp.shade == rooms[i].lamp.shade);
    }
  }
}

TEST_CASE("config object or list: an integer is found in an element, and the first change names it") {
  Room both = room(two);
  const auto body = [&](Describer& d) { describe(d, both); };
  CHECK(integer_field(body, "lamp.1.watts").value == 7);
  CHECK(
      message_of<InputError>([&] { (void)integer_field(body, "lamp.watts"); }).starts_with("no field \"lamp.watts\""));
  CHECK(message_of<InputError>([&] { (void)integer_field(body, "lamp"); }) ==
        "expected a field that holds an integer, \"lamp\" holds a list");
  Room changed = both;
  changed.further[0].watts = 8;
  const auto text = [](Room value) { return plain_text([&](Describer& d) { describe(d, value); }); };
  const std::optional<Change> json = first_change(written(both), written(changed), {});
  const std::optional<Change> plain = first_change_of_plain_text(text(both), text(changed), {});
  REQUIRE(json);
  REQUIRE(plain);
  for (const Change* change : {&*json, &*plain}) {
    CHECK(change->key == "lamp.1.watts");
    CHECK(change->before == "7");
    CHECK(change->now == "8");
  }
  changed.further.clear();
  CHECK(first_change(written(both), written(changed), {})->key == "lamp");
}

TEST_CASE("config object or list: schema, patches in it and help show both forms") {
  Room one;
  const auto body = [&](Describer& d) { describe(d, one); };
  const auto schema = nlohmann::json::parse(schema_text(body, "Room"));
  const nlohmann::json& lamp = schema["properties"]["lamp"];
  REQUIRE(lamp["anyOf"].size() == 2);
  CHECK(lamp["anyOf"][0]["required"] == nlohmann::json::array({"watts"}));
  CHECK(lamp["anyOf"][1] ==
        nlohmann::json::parse(
            R"({"type": "array", "items": {"$ref": "#/properties/lamp/anyOf/0"}, "minItems": 1, "maxItems": 3})"));
  CHECK(schema["required"] == nlohmann::json::array({"lamp"}));
  const nlohmann::json& patch = schema["properties"]["variants"]["items"]["properties"]["patch"]["properties"]["lamp"];
  REQUIRE(patch["anyOf"].size() == 3);
  CHECK(patch["anyOf"][0]["properties"].contains("watts"));
  CHECK_FALSE(patch["anyOf"][0].contains("required"));
  CHECK(patch["anyOf"][1] == lamp["anyOf"][1]);
  const std::string help = help_text(body, "");
  CHECK(help.find("object, or a list of 1 to") != std::string::npos);
  CHECK(help_text(body, "lamp").find("its power") != std::string::npos);
}

}  // namespace heddle::test::config_object_or_list_test
