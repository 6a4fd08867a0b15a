#include "experiments/training/gather_ranks.h"

#include <nlohmann/json.hpp>

namespace heddle {

using Json = nlohmann::json;

// Names and coordinates follow from the mesh: all processes have them.
std::string to_letter(const RankResult& row) {
  // Bound, so that a further member does not compile until it travels too.
  const auto& [rank, coordinates, peak, reserved_bytes, sent_bytes, received_bytes, busy_seconds, busy_in_step, trace,
               convolutions] = row;
  Json spans = Json::array();
  for (const auto& [name, is_communication, begin_seconds, seconds, bytes, message] : trace) {
    Json named;
    if (message) named = {message->from, message->to, message->number};
    spans.push_back({name, is_communication, begin_seconds, seconds, bytes, std::move(named)});
  }
  Json chosen = Json::array();
  for (const auto& [geometry, part, dtype, algorithm, math, workspace, adds_bias] : convolutions)
    chosen.push_back({geometry, part, dtype, algorithm, math, workspace, adds_bias});
  const Json measured{
      {"peak", peak.bytes},           {"reserved_bytes", reserved_bytes ? Json(*reserved_bytes) : Json(nullptr)},
      {"sent_bytes", sent_bytes},     {"received_bytes", received_bytes},
      {"busy_seconds", busy_seconds}, {"busy_in_step", busy_in_step},
      {"trace", std::move(spans)},    {"convolutions", std::move(chosen)}};
  std::string letter;
  Json::to_cbor(measured, letter);
  return letter;
}

void read_letter(const std::string& letter, RankResult& row) {
  const Json from = Json::from_cbor(letter);
  from.at("peak").get_to(row.peak.bytes);
  if (const Json& reserved = from.at("reserved_bytes"); !reserved.is_null())
    row.reserved_bytes = reserved.get<std::int64_t>();
  from.at("sent_bytes").get_to(row.sent_bytes);
  from.at("received_bytes").get_to(row.received_bytes);
  from.at("busy_seconds").get_to(row.busy_seconds);
  from.at("busy_in_step").get_to(row.busy_in_step);
  for (const Json& span : from.at("trace")) {
    row.trace.push_back(
        {.name = span[0], .is_communication = span[1], .begin_seconds = span[2], .seconds = span[3], .bytes = span[4]});
    const Json& named = span[5];
    if (!named.is_null()) row.trace.back().message = {.from = named[0], .to = named[1], .number = named[2]};
  }
  for (const Json& chosen : from.at("convolutions"))
    row.convolutions.push_back({.geometry = chosen[0],
                                .part = chosen[1],
                                .dtype = chosen[2],
                                .algorithm = chosen[3],
                                .math = chosen[4],
                                .workspace = chosen[5],
                                .adds_bias = chosen[6]});
}

void gather_ranks(VariantResult& result, Processes& job) {
  const auto own = static_cast<std::size_t>(job.rank());
  std::string letter;
  if (own < result.ranks.size()) letter = to_letter(result.ranks[own]);
  const std::vector<std::string> letters = job.gather(letter);
  for (std::size_t r = 1; r < std::min(letters.size(), result.ranks.size()); ++r)
    if (!letters[r].empty()) read_letter(letters[r], result.ranks[r]);
}

}  // namespace heddle
