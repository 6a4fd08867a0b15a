#include "experiments/results/gather_ranks.h"

#include <nlohmann/json.hpp>

namespace heddle {

namespace {

using Json = nlohmann::json;

// Names and coordinates follow from the mesh: all processes have them.
Json measured(const RankResult& row) {
  // Bound, so that a further member does not compile until it travels too.
  const auto& [rank, coordinates, peak, sent_bytes, received_bytes, busy_seconds, busy_in_step, trace] = row;
  Json spans = Json::array();
  for (const auto& [name, is_communication, begin_seconds, seconds, bytes, message] : trace) {
    Json named;
    if (message) named = {message->from, message->to, message->number};
    spans.push_back({name, is_communication, begin_seconds, seconds, bytes, std::move(named)});
  }
  return {{"peak", peak.bytes},           {"sent_bytes", sent_bytes},     {"received_bytes", received_bytes},
          {"busy_seconds", busy_seconds}, {"busy_in_step", busy_in_step}, {"trace", std::move(spans)}};
}

void read(const Json& from, RankResult& row) {
  from.at("peak").get_to(row.peak.bytes);
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
}

}  // namespace

void gather_ranks(VariantResult& result, Processes& job) {
  const auto own = static_cast<std::size_t>(job.rank());
  std::string letter;
  if (own < result.ranks.size()) Json::to_cbor(measured(result.ranks[own]), letter);
  const std::vector<std::string> letters = job.gather(letter);
  for (std::size_t r = 1; r < std::min(letters.size(), result.ranks.size()); ++r)
    if (!letters[r].empty()) read(Json::from_cbor(letters[r]), result.ranks[r]);
}

}  // namespace heddle
