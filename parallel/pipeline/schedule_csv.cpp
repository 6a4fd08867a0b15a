#include "parallel/pipeline/schedule_csv.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "framework/error.h"
#include "parallel/pipeline/dependencies.h"
#include "parallel/pipeline/validation.h"

namespace heddle {
namespace {

bool is_computing(ActionKind kind) {
  return kind == ActionKind::forward || is_backward(kind) || kind == ActionKind::backward_weight;
}

bool is_written(ActionKind kind) {
  return is_computing(kind) || is_offload_or_load(kind);
}

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

/// The parts of a text between separators.
template <class Use>
void split(std::string_view text, char separator, const Use& use) {
  for (;;) {
    const std::size_t end = text.find(separator);
    use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

/// A piece of a file, which may contain anything, as messages quote it.
std::string quoted(std::string_view text) {
  constexpr std::size_t max_length = 40;
  std::string result = "`";
  for (const char c : text.substr(0, max_length)) result += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '?';
  return result + (text.size() > max_length ? "..`" : "`");
}

class CsvReader {
 public:
  explicit CsvReader(std::string_view name) : name_(name) {}

  Schedule read(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    if (text.empty()) fail<InputError>("{}: expected one row per rank, the file is empty", name_);
    split(text, '\n', [&](std::string_view row) { read_row(row); });
    const auto stages = at_index(stages_);
    if (computing_ < stages * at_index(schedule_.micro_batches)) {
      fail<InputError>("{}: {} stages and {} micro-batches, but {} actions that compute", name_, stages_,
                       schedule_.micro_batches, computing_);
    }
    auto& [even, odd] = rank_of_;
    odd.resize(stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      if (even[stage] < 0) fail<InputError>("{}: no row has stage {}", name_, stage);
      if (odd[stage] < 0) odd[stage] = even[stage];
    }
    if (odd != even) schedule_.second_rank_of = std::move(odd);
    schedule_.rank_of = std::move(even);
    check(schedule_, name_);
    return std::move(schedule_);
  }

 private:
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    fail<InputError>("{}:{}: cell {}: {}", name_, row_, cell_, fmt::format(format, std::forward<Args>(args)...));
  }

  void read_row(std::string_view row) {
    ++row_;
    cell_ = 0;
    schedule_.ranks.emplace_back();
    split(row, ',', [&](std::string_view cell) {
      ++cell_;
      if (++cells_ > max_cells) wrong("more than {} cells", max_cells);
      cell = trimmed(cell);
      if (cell.empty()) return;
      if (cell.front() == '(') {
        read_overlapped(cell);
      } else if (const std::optional<Action> action = read_action(cell)) {
        add(*action);
      }
    });
    if (schedule_.ranks.back().empty()) fail<InputError>("{}:{}: a rank that computes nothing", name_, row_);
  }

  void read_overlapped(std::string_view cell) {
    const std::size_t close = cell.find(')');
    if (close == std::string_view::npos || cell.substr(close + 1) != "OVERLAP_F_B") {
      wrong("expected `(0F7;7B3)OVERLAP_F_B`, got {}", quoted(cell));
    }
    std::vector<Action> pair;
    split(cell.substr(1, close - 1), ';', [&](std::string_view part) {
      const std::optional<Action> action = read_action(trimmed(part));
      if (!action || pair.size() == 2) wrong("expected two actions that overlap, got {}", quoted(cell));
      pair.push_back(*action);
    });
    if (pair.size() != 2) wrong("expected two actions that overlap, got {}", quoted(cell));
    pair.front().overlaps_next = true;
    for (const Action& action : pair) add(action);
  }

  /// Empty for an action of PyTorch's that does not compute.
  std::optional<Action> read_action(std::string_view text) const {
    std::string_view rest = text;
    const std::optional<std::int64_t> stage = read_number(rest, max_stages, "stage");
    const std::size_t letters = std::min(rest.find_first_of("0123456789"), rest.size());
    const std::string_view kind = rest.substr(0, letters);
    rest.remove_prefix(letters);
    const std::optional<std::int64_t> micro_batch = read_number(rest, max_micro_batches, "micro-batch");
    const bool sharding = kind == "UNSHARD" || kind == "RESHARD" || kind == "REDUCE_GRAD";
    if (stage && rest.empty() && (micro_batch || sharding)) {
      if (sharding) return std::nullopt;
      for (const ActionKind candidate : all_of<ActionKind>) {
        if (kind != name_of(candidate)) continue;
        if (is_message(candidate)) return std::nullopt;
        if (is_written(candidate)) {
          return Action{candidate, static_cast<int>(*stage), static_cast<int>(*micro_batch)};
        }
      }
    }
    wrong("expected an action such as `2F0`, got {}", quoted(text));
  }

  /// Takes the digits at the front off `text`.
  std::optional<std::int64_t> read_number(std::string_view& text, std::int64_t bound, std::string_view what) const {
    const std::string_view digits = text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
    if (digits.empty()) return std::nullopt;
    std::int64_t number = 0;
    for (const char digit : digits) {
      number = 10 * number + (digit - '0');
      if (number >= bound) wrong("{} {} is past {}", what, quoted(digits), bound - 1);
    }
    text.remove_prefix(digits.size());
    return number;
  }

  void add(const Action& action) {
    const int rank = row_ - 1;
    const auto stage = at_index(action.stage);
    for (std::vector<int>& rank_of : rank_of_)
      if (stage >= rank_of.size()) rank_of.resize(stage + 1, -1);
    int& known = rank_of_[action.micro_batch % 2 == 0 ? 0 : 1][stage];
    if (known >= 0 && known != rank) wrong("stage {} is in row {} too", action.stage, known + 1);
    known = rank;
    stages_ = std::max(stages_, action.stage + 1);
    schedule_.micro_batches = std::max(schedule_.micro_batches, action.micro_batch + 1);
    schedule_.ranks.back().push_back(action);
    if (is_computing(action.kind)) ++computing_;
  }

  std::string_view name_;
  int row_ = 0;
  int cell_ = 0;
  std::int64_t cells_ = 0;
  std::size_t computing_ = 0;
  int stages_ = 0;
  std::array<std::vector<int>, 2> rank_of_;  // of the even micro-batches, and of the odd ones
  Schedule schedule_;
};

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& list : schedule.ranks) {
    std::string row;
    bool open = false;
    for (const Action& action : list) {
      if (!is_written(action.kind)) continue;
      if (open) {
        row += fmt::format(";{})OVERLAP_F_B", to_string(action));
      } else {
        row += fmt::format("{}{}{}", row.empty() ? "" : ",", action.overlaps_next ? "(" : "", to_string(action));
      }
      open = action.overlaps_next;
    }
    text += row + "\n";
  }
  return text;
}

Schedule from_csv(std::string_view text, std::string_view name) {
  return CsvReader(name).read(text);
}

}  // namespace heddle
