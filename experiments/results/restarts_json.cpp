#include "experiments/results/restarts_json.h"

#include <algorithm>
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "framework/files/untrusted_json.h"

namespace heddle {

using OrderedJson = nlohmann::ordered_json;

OrderedJson restarts_json(const std::vector<Restart>& restarts) {
  OrderedJson json = OrderedJson::array();
  for (const Restart& restart : restarts)
    json.push_back({{"number", restart.number},
                    {"why", restart.why},
                    {"failed_at", restart.failed_at},
                    {"step", restart.step},
                    {"ranks", restart.ranks},
                    {"seconds", restart.seconds}});
  return json;
}

std::vector<Restart> restarts_of(const OrderedJson& line) {
  std::vector<Restart> restarts;
  const auto found = line.find("restarts");
  if (found == line.end() || !found->is_array()) return restarts;
  for (const OrderedJson& json : *found) {
    if (!json.is_object()) continue;
    const auto number = [&](const char* key) {
      const auto value = json.find(key);
      return value != json.end() && value->is_number() ? value->get<double>() : 0;
    };
    const auto count = [&](const char* key) {
      const auto value = json.find(key);
      return value == json.end() ? 0 : count_of(*value).value_or(0);
    };
    const auto why = json.find("why");
    restarts.push_back(
        {.number = static_cast<int>(std::min<std::int64_t>(count("number"), std::numeric_limits<int>::max())),
         .why = why != json.end() && why->is_string() ? why->get<std::string>() : "",
         .failed_at = number("failed_at"),
         .step = count("step"),
         .ranks = count("ranks"),
         .seconds = number("seconds")});
  }
  return restarts;
}

}  // namespace heddle
