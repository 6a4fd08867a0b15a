#include "experiments/program/schedule/playground.h"

#include <algorithm>
#include <deque>
#include <regex>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/program/schedule/picture.h"
#include "framework/error.h"
#include "notebooks_export/embedded_files.h"
#include "notebooks_export/page.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// The micro-batches of a stage that the order of its actions implies.
class Counts {
 public:
  /// The micro-batch of the stage's next action of this kind.
  int next(ActionKind kind) {
    if (kind == ActionKind::forward) return forwards_++;
    if (kind == ActionKind::backward_weight) {
      if (without_weight_.empty()) return -1;
      const int micro_batch = without_weight_.front();
      without_weight_.pop_front();
      return micro_batch;
    }
    if (kind == ActionKind::backward_input) without_weight_.push_back(backwards_);
    return backwards_++;
  }

 private:
  int forwards_ = 0;
  int backwards_ = 0;
  std::deque<int> without_weight_;
};

std::string token(const Action& action, int chunk) {
  constexpr std::string_view kinds = "FBIW";
  constexpr std::string_view letters = "FBIWfbiwGCJXgcjx";
  const std::size_t kind = kinds.find(name_of(action.kind));
  const std::size_t index = kinds.size() * static_cast<std::size_t>(chunk) + kind;
  if (kind == std::string_view::npos || index >= letters.size())
    fail<InputError>("playground: there is no letter for {} in chunk {}", to_string(action), chunk);
  return std::string(action.overlaps_next ? "&" : "") + letters[index];
}

/// `F F B F B F B` as `F(FB)3`: what repeats at once is written once, the longest stretch first.
std::string packed(const std::vector<std::string>& tokens) {
  constexpr std::size_t max_period = 12;
  std::string text;
  for (std::size_t at = 0; at < tokens.size();) {
    std::size_t best_period = 1;
    std::size_t best_count = 1;
    for (std::size_t period = 1; period <= std::min(max_period, tokens.size() - at); ++period) {
      std::size_t same = 0;
      while (at + same + period < tokens.size() && tokens[at + same] == tokens[at + same + period]) ++same;
      const std::size_t count = 1 + same / period;
      if (count > 1 && count * period > best_count * best_period + 2) {
        best_period = period;
        best_count = count;
      }
    }
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    const std::string part = fmt::format("{}", fmt::join(first, first + static_cast<std::ptrdiff_t>(best_period), ""));
    if (best_count == 1) {
      text += part;
    } else {
      text += fmt::format(fmt::runtime(best_period == 1 ? "{}{}" : "({}){}"), part, best_count);
    }
    at += best_period * best_count;
  }
  return text;
}

/// How the page draws F, B, I and W: those of a rank's first, third, .. chunk, then those of its other chunks.
OrderedJson kinds_drawn() {
  OrderedJson kinds = OrderedJson::array();
  for (const std::size_t odd : {0U, 1U})
    for (const ActionKind kind :
         {ActionKind::forward, ActionKind::backward, ActionKind::backward_input, ActionKind::backward_weight}) {
      const ActionLook& look = look_of(kind);
      kinds.push_back({{"name", fmt::format("{}{}", look.meaning, odd == 1 ? ", every other stage" : "")},
                       {"colour", look.web_colours.at(odd)}});
    }
  return kinds;
}

OrderedJson shapes_of(const ScheduleType& type, const PlaygroundLimits& limits) {
  OrderedJson shapes = OrderedJson::object();
  for (int chunks = type.min_chunks; chunks <= std::min(type.max_chunks.value_or(limits.chunks), limits.chunks);
       ++chunks) {
    for (int ranks = 1; ranks <= limits.ranks; ++ranks) {
      for (int micro_batches = 1; micro_batches <= limits.micro_batches; ++micro_batches) {
        std::string text;
        try {
          text = schedule_text(
              make_schedule(type.name, {.ranks = ranks, .micro_batches = micro_batches, .chunks = chunks}));
        } catch (const InputError& error) {
          text = fmt::format("!{}", error.what());
        }
        shapes[fmt::format("{} {} {}", ranks, micro_batches, chunks)] = text;
      }
    }
  }
  return shapes;
}

}  // namespace

std::string schedule_text(const Schedule& schedule) {
  constexpr int max_shown_ranks = 10;  // one digit
  if (schedule.copies() > 1) fail<InputError>("playground: expected one copy of each stage");
  if (schedule.size() > max_shown_ranks)
    fail<InputError>("playground: expected at most {} ranks, got {}", max_shown_ranks, schedule.size());
  std::string text;
  for (const int rank : schedule.rank_of) text += std::to_string(rank);
  const ChunkNumbers chunks(schedule);
  std::vector<Counts> counts(schedule.rank_of.size());
  for (const std::vector<Action>& list : schedule.ranks) {
    std::vector<std::string> tokens;
    for (const Action& action : list) {
      const auto stage = static_cast<std::size_t>(action.stage);
      tokens.push_back(token(action, chunks.of(action)));
      if (counts[stage].next(action.kind) != action.micro_batch)
        fail<InputError>("playground: {} is not in the order of the micro-batches", to_string(action));
    }
    text += "|" + packed(tokens);
  }
  return text;
}

std::string playground_data(const PlaygroundLimits& limits) {
  OrderedJson schedules = OrderedJson::array();
  for (const ScheduleType& type : schedule_types()) {
    if (type.min_chunks > limits.chunks || type.copies > 1) continue;  // the page knows one rank per stage
    schedules.push_back({{"name", type.name},
                         {"description", type.description},
                         {"min_chunks", type.min_chunks},
                         {"max_chunks", std::min(type.max_chunks.value_or(limits.chunks), limits.chunks)},
                         {"shapes", shapes_of(type, limits)}});
  }
  const OrderedJson data{{"max_ranks", limits.ranks},
                         {"max_micro_batches", limits.micro_batches},
                         {"max_chunks", limits.chunks},
                         {"kinds", kinds_drawn()},
                         {"schedules", schedules}};
  return data.dump();
}

std::string playground_html() {
  // JSON in a script: no text within it may end the script.
  const std::string data = std::regex_replace(playground_data({}), std::regex("<"), "\\u003c");
  const std::string body = fmt::format("{}<script type=\"application/json\" id=\"schedules\">{}</script>",
                                       embedded_file("pages/playground.html"), data);
  return html_page(
      "Pipeline schedules", embedded_file("pages/page.css"), body,
      {embedded_file("pages/timeline.js"), embedded_file("pages/simulate.js"), embedded_file("pages/playground.js")});
}

}  // namespace heddle
