#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "experiments/program/schedule/picture.h"
#include "experiments/results/pictures/svg_parts.h"

namespace heddle {

namespace {

constexpr std::size_t max_drawn = 256;
constexpr std::size_t max_actions = 50'000;
constexpr int row_height = 24;
constexpr int left_margin = 60;
constexpr int top = 56;
constexpr std::string_view critical_stroke = "stroke=\"#c0262d\" stroke-width=\"2\"";

class Drawing {
 public:
  Drawing(const Timeline& timeline, const Schedule& schedule, std::string_view title, const CriticalPath* critical)
      : timeline_(timeline),
        chunks_(schedule),
        title_(title),
        rows_(std::min(max_drawn, timeline.ranks.size())),
        has_links_(draws_host_links(timeline)),
        end_(last_drawn()),
        pixels_(pixels_per_time()),
        critical_(critical) {
    if (critical != nullptr) marks_ = marks_of(timeline, *critical);
  }

  std::string draw() const {
    const double width = left_margin + end_ * pixels_ + 20;
    const double height = y(rows_) + 40 + (is_cut() ? 20 : 0);
    std::string svg = begin_svg_file(std::max(width, 720.0), height, title_, left_margin) + legend();
    for (std::size_t rank = 0; rank < rows_; ++rank) svg += rows_of(rank);
    return svg + messages() + axis() + note() + "</svg>\n";
  }

 private:
  /// The time from which on nothing is drawn.
  double last_drawn() const {
    std::vector<double> ends;
    for (std::size_t rank = 0; rank < rows_; ++rank)
      for (const TimedAction& timed : timeline_.ranks[rank]) ends.push_back(timed.end);
    if (ends.empty()) return 0;
    const std::size_t last = std::min(ends.size(), max_actions) - 1;
    std::nth_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(last), ends.end());
    return ends[last];
  }

  bool is_cut() const { return rows_ < timeline_.ranks.size() || end_ < timeline_.makespan() * (1 - 1e-9); }

  /// So that a short action has room for its number, within 800 to 8,000 pixels in all.
  double pixels_per_time() const {
    if (end_ <= 0) return 1;
    double shortest = end_;
    for (std::size_t rank = 0; rank < rows_; ++rank)
      for (const TimedAction& timed : timeline_.ranks[rank])
        if (timed.end > timed.begin) shortest = std::min(shortest, timed.end - timed.begin);
    return std::clamp(22 / shortest * end_, 800.0, 8000.0) / end_;
  }

  double x(double time) const { return left_margin + time * pixels_; }
  double y(std::size_t rank) const { return top + row_height * static_cast<double>(has_links_ ? 2 * rank : rank); }

  std::string rows_of(std::size_t rank) const {
    const std::vector<bool>* const marks = marks_.empty() ? nullptr : &marks_[rank];
    const std::string svg = row(fmt::format("rank {}", rank), y(rank), timeline_.ranks[rank], marks);
    return has_links_ ? svg + row("link", y(rank) + row_height, timeline_.host_links[rank], nullptr) : svg;
  }

  /// `marks`: which of the actions are on the critical path; null: none.
  std::string row(std::string_view label, double y, const std::vector<TimedAction>& actions,
                  const std::vector<bool>* marks) const {
    std::string svg = svg_text(8, y + 16, label);
    svg += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"#f0f0f0\"/>\n", left_margin,
                       y + 1, end_ * pixels_, row_height - 2);
    for (std::size_t first = 0; first < actions.size();) {
      std::size_t last = first + 1;
      while (last < actions.size() && actions[last].begin < actions[first].end) ++last;
      const double height = static_cast<double>(row_height - 2) / static_cast<double>(last - first);
      for (std::size_t i = first; i < last; ++i)
        svg +=
            cell(actions[i], marks != nullptr && (*marks)[i], y + 1 + height * static_cast<double>(i - first), height);
      first = last;
    }
    return svg;
  }

  /// Actions that overlap lie one above the other.
  std::string cell(const TimedAction& timed, bool is_critical, double y, double height) const {
    if (timed.end > end_ || timed.end <= timed.begin) return "";
    const Action& action = timed.action;
    const double width = (timed.end - timed.begin) * pixels_;
    const auto odd = static_cast<std::size_t>(chunks_.of(action) % 2);
    std::string svg = fmt::format(
        "<g><title>{}: {} of micro-batch {} in stage {}, {} to {}{}</title>"
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" {}/>",
        to_string(action), look_of(action.kind).meaning, action.micro_batch, action.stage, plain_number(timed.begin),
        plain_number(timed.end), is_critical ? ", on the critical path" : "", x(timed.begin), y, width, height,
        look_of(action.kind).web_colours.at(odd),
        is_critical ? critical_stroke : "stroke=\"#fff\" stroke-width=\"0.6\"");
    const std::string number = std::to_string(action.micro_batch);
    if (width >= 4 + 7 * static_cast<double>(number.size()))
      svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{}\" text-anchor=\"middle\">{}</text>",
                         x(timed.begin) + width / 2, y + height / 2 + 4, height < 16 ? 9 : 12, number);
    return svg + "</g>\n";
  }

  /// Lines from the end of an action on the critical path to the begin of the next one, where this is on another rank.
  std::string messages() const {
    std::string svg;
    if (critical_ == nullptr) return svg;
    const auto timed = [&](const CriticalStep& step) {
      return timeline_.ranks[static_cast<std::size_t>(step.rank)][static_cast<std::size_t>(step.index)];
    };
    const auto middle = [&](const CriticalStep& step) {
      return y(static_cast<std::size_t>(step.rank)) + row_height / 2;
    };
    const auto is_drawn = [&](const CriticalStep& step) {
      return static_cast<std::size_t>(step.rank) < rows_ && timed(step).end <= end_;
    };
    for (std::size_t i = 1; i < critical_->steps.size(); ++i) {
      const CriticalStep& from = critical_->steps[i - 1];
      const CriticalStep& to = critical_->steps[i];
      if (to.messages.empty() || !is_drawn(from) || !is_drawn(to)) continue;
      svg += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n", x(timed(from).end),
                         middle(from), x(timed(to).begin), middle(to), critical_stroke);
    }
    return svg;
  }

  std::string legend() const {
    std::string svg;
    double at = left_margin;
    for (const ActionLook& look : looks_in(timeline_)) {
      svg += fmt::format("<rect x=\"{:.0f}\" y=\"32\" width=\"14\" height=\"14\" fill=\"{}\"/>\n", at,
                         look.web_colours[0]);
      svg += svg_text(at + 19, 44, look.meaning);
      at += 40 + 7 * static_cast<double>(look.meaning.size());
    }
    if (critical_ != nullptr) {
      constexpr std::string_view meaning = "on the critical path";
      svg += fmt::format("<rect x=\"{:.0f}\" y=\"32\" width=\"14\" height=\"14\" fill=\"none\" {}/>\n", at,
                         critical_stroke);
      svg += svg_text(at + 19, 44, meaning);
      at += 40 + 7 * static_cast<double>(meaning.size());
    }
    return svg + svg_text(at, 44, chunks_.any() ? "darker: every other stage of a rank" : "");
  }

  std::string axis() const {
    if (end_ <= 0) return "";
    const double least = 80 / pixels_;  // between two labels
    const double power = std::pow(10.0, std::floor(std::log10(least)));
    double step = 10 * power;
    for (const int digit : {5, 2, 1})
      if (digit * power >= least) step = digit * power;
    std::string svg;
    for (int i = 0; i * step <= end_ * (1 + 1e-9); ++i)
      svg += svg_text(x(i * step), y(rows_) + 16, plain_number(i * step));
    return svg + svg_text(8, y(rows_) + 16, "time");
  }

  std::string note() const {
    if (!is_cut()) return "";
    return svg_text(left_margin, y(rows_) + 40,
                    fmt::format("Cut: {} of {} ranks, the time up to {} of {}.", rows_, timeline_.ranks.size(),
                                plain_number(end_), plain_number(timeline_.makespan())));
  }

  const Timeline& timeline_;
  ChunkNumbers chunks_;
  std::string_view title_;
  std::size_t rows_;
  bool has_links_;
  double end_;
  double pixels_;
  const CriticalPath* critical_;          // null: none is drawn
  std::vector<std::vector<bool>> marks_;  // of its actions
};

}  // namespace

std::string picture_svg(const Timeline& timeline, const Schedule& schedule, std::string_view title,
                        const CriticalPath* critical) {
  return Drawing(timeline, schedule, title, critical).draw();
}

}  // namespace heddle
