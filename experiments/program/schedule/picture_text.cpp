#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "experiments/program/schedule/picture.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

constexpr int max_rows = 32;

/// How time is divided into columns, and columns into characters.
struct Scale {
  double column = 1;  // time
  int columns = 0;
  int characters = 1;     // of a column
  bool is_exact = false;  // every action begins and ends with a column
  bool names_actions() const { return characters > 1; }
};

/// A line without the blanks at its end.
std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

class Painter {
 public:
  Painter(const Timeline& timeline, const Schedule& schedule, const PictureStyle& style, const CriticalPath* critical)
      : timeline_(timeline),
        chunks_(schedule),
        has_chunks_(chunks_.any()),
        style_(style),
        gutter_(2 + std::max(4, static_cast<int>(fmt::formatted_size("{}", timeline.ranks.size() - 1)))),
        scale_(fitting_scale()) {
    if (critical != nullptr) marks_ = marks_of(timeline, *critical);
  }

  std::string paint() const {
    const auto rows = static_cast<int>(timeline_.ranks.size());
    const int left_out = rows > max_rows ? rows - max_rows : 0;
    std::string text = "rank\n";
    for (int rank = 0; rank < rows; ++rank) {
      if (left_out > 0 && rank == max_rows / 2) {
        text += fmt::format("{:{}}({} ranks are not drawn)\n", "", gutter_, left_out);
        rank += left_out;
      }
      const auto line = [&](const auto& label, const std::vector<TimedAction>& actions, const Marks* marks) {
        text += trimmed(fmt::format("{:>{}}  {}", label, gutter_ - 2, row(actions, marks)));
      };
      const auto r = static_cast<std::size_t>(rank);
      line(rank, timeline_.ranks[r], marks_.empty() ? nullptr : &marks_[r]);
      if (!scale_.names_actions() && !marks_.empty()) text += row_of_marks(r);
      if (draws_host_links(timeline_)) line("link", timeline_.host_links[r], nullptr);
    }
    return text + axis() + legend();
  }

 private:
  /// Which of a rank's actions are on the critical path.
  using Marks = std::vector<bool>;

  std::string name(const Action& action) const {
    if (style_.colour) return std::to_string(action.micro_batch);
    if (has_chunks_) return to_string(action);
    return fmt::format("{}{}", name_of(action.kind), action.micro_batch);
  }

  Scale fitting_scale() const {
    const int room = std::max(20, style_.columns - gutter_);
    const double whole = end();
    Scale scale;
    if (whole <= 0) return scale;
    if (const std::optional<double> unit = unit_of_time(timeline_)) {
      scale = {.column = *unit, .columns = static_cast<int>(std::lround(whole / *unit)), .is_exact = true};
      const int characters = 1 + max_name_size();
      if (scale.columns * characters <= room) scale.characters = characters;
      if (scale.columns <= room) return scale;
    }
    // A round number.
    const double least = whole / room;
    const double power = std::pow(10.0, std::floor(std::log10(least)));
    scale.column = 10 * power;
    for (const double step : {8.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0})
      if (step * power >= least) scale.column = step * power;
    scale.columns = static_cast<int>(std::ceil(whole / scale.column - 1e-9));
    scale.is_exact = false;
    return scale;
  }

  double end() const {
    double end = 0;
    for_each_timed(timeline_, [&](const TimedAction& timed) { end = std::max(end, timed.end); });
    return end;
  }

  int max_name_size() const {
    std::size_t longest = 1;
    for_each_timed(timeline_,
                   [&](const TimedAction& timed) { longest = std::max(longest, name(timed.action).size()); });
    return static_cast<int>(longest);
  }

  std::string row(const std::vector<TimedAction>& actions, const Marks* marks) const {
    return scale_.names_actions() ? named_row(actions, marks) : dense_row(actions);
  }

  std::string idle(int columns) const {
    std::string text;
    for (int i = 0; i < columns; ++i) text += fmt::format("{:<{}}", ".", scale_.characters);
    return text;
  }

  /// `F0 F1 .  B0--- `
  std::string named_row(const std::vector<TimedAction>& actions, const Marks* marks) const {
    std::string text;
    int reached = 0;
    for (std::size_t first = 0; first < actions.size();) {
      const TimedAction& timed = actions[first];
      const int begin = column_of(timed.begin);
      const int end = column_of(timed.end);
      std::size_t last = first + 1;
      while (last < actions.size() && actions[last].begin < timed.end) ++last;
      if (end > begin) {
        const char after = marks != nullptr && (*marks)[first] ? '*' : ' ';
        text += idle(begin - reached) + block(std::span(actions).subspan(first, last - first), end - begin, after);
        reached = end;
      }
      first = last;
    }
    return text + (reached == scale_.columns ? "" : idle(scale_.columns - reached));
  }

  int column_of(double time) const { return static_cast<int>(std::lround(time / scale_.column)); }

  /// Actions that overlap share the characters of their time. `after` is the last character.
  std::string block(std::span<const TimedAction> actions, int columns, char after) const {
    const int characters = columns * scale_.characters;
    std::string text;
    int left = characters;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const auto parts = static_cast<int>(actions.size() - i);
      const int part = left / parts;
      left -= part;
      const std::string label = name(actions[i].action).substr(0, static_cast<std::size_t>(part - 1));
      if (style_.colour) {
        text += coloured(fmt::format("{:<{}}{}", label, part - 1, parts > 1 ? ' ' : after), actions[i].action);
      } else {
        text += fmt::format("{:-<{}}{}", label, part - 1, parts > 1 ? '&' : after);
      }
    }
    return text;
  }

  std::string coloured(std::string_view text, const Action& action) const {
    const int odd = chunks_.of(action) % 2;
    const auto background = look_of(action.kind).terminal_colours.at(static_cast<std::size_t>(odd));
    return fmt::format("\x1b[38;5;16;48;5;{}m{}\x1b[0m", background, text);
  }

  /// One character per column: the action that takes most of its busy time. Idle time does not compete with the
  /// actions, or a schedule of short actions far apart would be drawn as idle throughout.
  std::string dense_row(const std::vector<TimedAction>& actions) const {
    struct Share {
      double longest = 0;
      const Action* action = nullptr;
    };
    std::vector<Share> shares(static_cast<std::size_t>(scale_.columns));
    std::array<double, enumerator_count<ActionKind>()> none{};
    std::vector<std::array<double, enumerator_count<ActionKind>()>> by_kind(shares.size(), none);
    for (const TimedAction& timed : actions) {
      const auto first = static_cast<std::size_t>(std::max(0.0, std::floor(timed.begin / scale_.column + 1e-6)));
      for (std::size_t column = first; column < shares.size(); ++column) {
        const double begin = static_cast<double>(column) * scale_.column;
        const double time = std::min(timed.end, begin + scale_.column) - std::max(timed.begin, begin);
        if (time <= 1e-6 * scale_.column) break;
        Share& share = shares[column];
        double& of_kind = by_kind[column].at(static_cast<std::size_t>(timed.action.kind));
        of_kind += time;
        if (of_kind > share.longest) {
          share.longest = of_kind;
          share.action = &timed.action;
        }
      }
    }
    std::string text;
    for (const Share& share : shares) text += share.action == nullptr ? "." : character(*share.action);
    return text;
  }

  /// A * below each character whose time is partly on the critical path; no line if there is none.
  std::string row_of_marks(std::size_t rank) const {
    std::string text(static_cast<std::size_t>(scale_.columns), ' ');
    for (std::size_t i = 0; i < marks_[rank].size(); ++i) {
      if (!marks_[rank][i]) continue;
      const TimedAction& timed = timeline_.ranks[rank][i];
      const auto first = static_cast<std::size_t>(std::max(0.0, std::floor(timed.begin / scale_.column + 1e-6)));
      const auto end = static_cast<std::size_t>(std::max(0.0, std::ceil(timed.end / scale_.column - 1e-6)));
      for (std::size_t column = first; column < std::min(end, text.size()); ++column) text[column] = '*';
    }
    if (text.find('*') == std::string::npos) return "";
    return trimmed(std::string(static_cast<std::size_t>(gutter_), ' ') + text);
  }

  /// On a terminal the last digit of the micro-batch; otherwise a letter, in lower case for every other stage of a
  /// rank.
  std::string character(const Action& action) const {
    if (style_.colour) {
      const char digit = static_cast<char>('0' + action.micro_batch % 10);
      return coloured(scale_.is_exact ? std::string(1, digit) : " ", action);
    }
    std::string letter(name_of(action.kind));
    if (chunks_.of(action) % 2 == 1) letter[0] = static_cast<char>(letter[0] - 'A' + 'a');
    return letter;
  }

  /// The times, each below the column where it begins.
  std::string axis() const {
    int step = 1;  // columns
    const auto label = [&](int column) { return plain_number(column * scale_.column); };
    const int needed = 2 + static_cast<int>(std::max(label(scale_.columns).size(), label(1).size()));
    for (int power = 1; step * scale_.characters < needed; power *= 10)
      for (const int digit : {1, 2, 5})
        if (step * scale_.characters < needed) step = digit * power;
    std::string text = fmt::format("{:<{}}", "time", gutter_);
    for (int column = 0; column < scale_.columns; column += step)
      text += fmt::format("{:<{}}", label(column), step * scale_.characters);
    return trimmed(text);
  }

  std::string legend() const {
    std::string text;
    for (const ActionLook& look : looks_in(timeline_)) {
      const std::string letter(name_of(look.kind));
      const std::string sample =
          style_.colour ? fmt::format("\x1b[38;5;16;48;5;{}m   \x1b[0m", look.terminal_colours[0]) : letter;
      text += fmt::format("{} {}, ", sample, look.meaning);
    }
    text += ". idle";
    if (!marks_.empty())
      text += scale_.names_actions() ? ", * on the critical path" : ", * below: on the critical path";
    return text + "\n" + explanation() + "\n";
  }

  std::string explanation() const {
    const std::string time = plain_number(scale_.column);
    const std::string others = !has_chunks_    ? ""
                               : style_.colour ? "; darker: every other stage of a rank"
                                               : "; small letters: every other stage of a rank";
    if (scale_.names_actions()) {
      if (style_.colour) return "a number is a micro-batch" + others;
      return has_chunks_ ? "2F0: in stage 2 the forward of micro-batch 0" : "F0: the forward of micro-batch 0";
    }
    if (!scale_.is_exact)
      return fmt::format(
          "each character is a time of {}: the action that takes most of its busy part, . if all of it is idle{}", time,
          others);
    return fmt::format("each character is a time of {}{}{}", time,
                       style_.colour ? ", and a digit is the last one of a micro-batch" : "", others);
  }

  const Timeline& timeline_;
  ChunkNumbers chunks_;
  bool has_chunks_;
  PictureStyle style_;
  int gutter_;
  Scale scale_;
  std::vector<std::vector<bool>> marks_;  // of the actions on the critical path; empty if none is drawn
};

}  // namespace

std::string picture_text(const Timeline& timeline, const Schedule& schedule, const PictureStyle& style,
                         const CriticalPath* critical) {
  return Painter(timeline, schedule, style, critical).paint();
}

}  // namespace heddle
