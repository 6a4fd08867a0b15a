#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "experiments/program/plan/layout_report.h"
#include "experiments/results/pictures/chart_axis.h"
#include "experiments/results/pictures/svg_parts.h"
#include "experiments/results/units.h"
#include "framework/description/html_text.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

constexpr double picture_width = 900;
constexpr double picture_height = 600;
constexpr double plot_left = 76;
constexpr double plot_right = picture_width - 20;
constexpr double plot_top = 84;
constexpr double plot_bottom = picture_height - 72;
/// An axis whose values span more than this factor is logarithmic.
constexpr double max_linear_ratio = 20;
/// Layouts that exceed the front and the file by more than this factor are left out: they would leave little room for
/// the rest.
constexpr double max_drawn_ratio = 1.5;
/// The line of a budget is left out if the budget exceeds what is drawn by more than this factor.
constexpr double max_budget_ratio = 4;

// Colours that readers with colour-blindness tell apart (Okabe and Ito 2008).
constexpr std::string_view blue = "#0072b2";
constexpr std::string_view green = "#009e73";
constexpr std::string_view orange = "#d55e00";
constexpr std::string_view plan_style = R"(fill="#0072b2" fill-opacity="0.45")";
constexpr std::string_view estimate_style = R"(fill="none" stroke="#777" stroke-opacity="0.6")";

struct Pixel {
  double x = 0;
  double y = 0;
};

struct TextBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  bool overlaps(const TextBox& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
  bool contains(const Pixel& at) const { return at.x > left && at.x < right && at.y > top && at.y < bottom; }
};

/// Where a label's baseline begins or ends.
struct LabelPlace {
  Pixel at{};
  bool ends = false;
  TextBox box(std::string_view text) const {
    const double width = svg_character * static_cast<double>(width_of(text));
    const double left = ends ? at.x - width : at.x;
    return {left - 6, at.y - 15, left + width + 6, at.y + 7};  // with half of a dot around it
  }
};

/// A layout with a symbol and a name of its own.
struct Mark {
  const LayoutCandidate* layout;
  std::string_view kind;
  std::string_view name;
  std::string meaning;
  std::string_view outline;
  std::string_view colour;
};

using Layouts = std::vector<const LayoutCandidate*>;

std::vector<double> seconds_of(const Layouts& layouts) {
  std::vector<double> seconds;
  for (const LayoutCandidate* const each : layouts) seconds.push_back(each->figures.seconds);
  return seconds;
}
std::vector<double> memories_of(const LayoutReport& report, const Layouts& layouts) {
  std::vector<double> memories;
  for (const LayoutCandidate* const each : layouts) memories.push_back(report.memory_of(*each));
  return memories;
}
double max_of(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

/// The front, the file's layout, and what is near them.
Layouts layouts_to_draw(const LayoutReport& report) {
  const LayoutSearchResult& result = report.result;
  Layouts drawn;
  for (const LayoutCandidate& each : result.front) drawn.push_back(&each);
  if (result.written) drawn.push_back(&*result.written);
  const double max_seconds = max_drawn_ratio * max_of(seconds_of(drawn));
  const double max_memory = max_drawn_ratio * max_of(memories_of(report, drawn));
  for (const LayoutCandidate& each : result.layouts)
    if (each.figures.seconds <= max_seconds && report.memory_of(each) <= max_memory) drawn.push_back(&each);
  return drawn;
}

ChartAxis axis_over(std::vector<double> values, const Unit& unit, double from, double to) {
  for (double& value : values) value /= unit.size;
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  if (*least > 0 && *greatest > max_linear_ratio * *least) {
    const double margin = std::pow(*greatest / *least, 0.05);
    return {*least / margin, *greatest * margin, from, to, true};
  }
  const double margin = *greatest > *least ? 0.06 * (*greatest - *least) : 0.1 * *greatest;
  return {std::max(0.0, *least - margin), *greatest + margin, from, to};
}

std::string axis_heading(std::string_view what, const Unit& unit, const ChartAxis& axis) {
  return heading(what, unit) + (axis.is_logarithmic() ? ", logarithmic" : "");
}

std::string title_of(const LayoutReport& report, const LayoutCandidate& candidate) {
  const Layout& layout = candidate.layout;
  return fmt::format("{}, {}, {}: {}", value_of(layout, LayoutOption::mesh), value_of(layout, LayoutOption::schedule),
                     counted(layout.micro_batches, "micro-batch", "micro-batches"), figures_words(report, candidate));
}

std::string outline_of(const Mark& mark) {
  return fmt::format("d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\"", mark.outline, mark.colour);
}

class LayoutPicture {
 public:
  explicit LayoutPicture(const LayoutReport& report)
      : report_(report),
        drawn_(layouts_to_draw(report)),
        time_(unit_of_seconds(seconds_of(drawn_))),
        memory_(report.memory_unit(memories_of(report, drawn_))),
        budget_(report.memory_limit()),
        has_budget_line_(budget_ > 0 && budget_ <= max_budget_ratio * max_of(memories_of(report, drawn_))),
        x_(axis_over(seconds_of(drawn_), time_, plot_left, plot_right)),
        y_(memory_axis()) {}

  std::string draw() {
    constexpr std::size_t max_name = 36;
    const std::string title = fmt::format("{}: step time and peak memory of layouts of {}",
                                          shorten(report_.name, max_name), counted(report_.ranks, "rank", "ranks"));
    std::string svg = begin_svg_file(picture_width, picture_height, title, plot_left);
    svg += legend() + over_budget() + axes() + note() + dots() + front();
    svg += budget();
    for (const Mark& mark : marks()) svg += to_svg(mark);
    return svg + "</svg>\n";
  }

 private:
  ChartAxis memory_axis() const {
    std::vector<double> memories = memories_of(report_, drawn_);
    if (has_budget_line_) memories.push_back(budget_);
    return axis_over(std::move(memories), memory_, plot_bottom, plot_top);
  }
  double y_of(double memory) const { return y_(memory / memory_.size); }
  Pixel place_of(const LayoutCandidate& layout) const {
    return {x_(layout.figures.seconds / time_.size), y_of(report_.memory_of(layout))};
  }

  /// The file's layout and the fastest one, which may be the same.
  std::vector<Mark> marks() const {
    const LayoutSearchResult& result = report_.result;
    const LayoutCandidate& best = result.best.front();
    std::string fastest = budget_ > 0 ? "the fastest that fits" : "the fastest";
    std::vector<Mark> marks;
    if (result.written && distance(result.written->layout, best.layout) == 0) {
      fastest = "the file, " + fastest;
    } else if (result.written) {
      const std::int64_t ranks = mesh_of(result.written->layout.mesh).size();
      std::string file = "the file";
      if (ranks != report_.ranks) file += " on " + counted(ranks, "rank", "ranks");
      marks.push_back({&*result.written, "written", "file", file, "M0 -8L8 0L0 8L-8 0z", orange});
    }
    marks.push_back({&best, "fastest", "fastest", fastest, "M-9 0a9 9 0 1 0 18 0a9 9 0 1 0 -18 0z", green});
    return marks;
  }

  std::string legend() const {
    double x = 0;
    double y = 24;
    std::string svg;
    const auto begin_row = [&] {
      x = plot_left + 10;
      y += 22;
    };
    const auto add = [&](std::string_view symbol, std::string_view meaning) {
      svg += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">{}</g>\n", x, y - 4, symbol);
      svg += svg_text(x + 16, y, meaning);
      x += 52 + svg_character * static_cast<double>(width_of(meaning));
    };
    begin_row();
    for (const Mark& mark : marks())
      add(fmt::format("<path {}/>", outline_of(mark)),
          fmt::format("{}: {}, {}", mark.meaning, value_of(mark.layout->layout, LayoutOption::mesh),
                      figures_words(report_, *mark.layout)));
    begin_row();
    add(fmt::format("<circle r=\"3\" {}/>", plan_style), "planned");
    if (!std::all_of(drawn_.begin(), drawn_.end(), [](const auto* each) { return each->is_planned(); }))
      add(fmt::format("<circle r=\"2.5\" {}/>", estimate_style), "estimated (~)");
    add(fmt::format("<path d=\"M-9 0H9\" stroke=\"{0}\" stroke-width=\"2\"/><circle r=\"4.5\" fill=\"{0}\"/>", blue),
        "no layout that was tried is both faster and smaller");
    return svg;
  }

  std::string axes() const {
    std::string svg = "<g stroke=\"#e4e4e4\">\n";
    std::string texts;
    for (const double tick : y_.ticks(7)) {
      svg += fmt::format("<path d=\"M{} {:.1f}H{}\"/>\n", plot_left, y_(tick), plot_right);
      texts += svg_text(plot_left - 7, y_(tick) + 4, tick_text(tick), " text-anchor=\"end\"");
    }
    for (const double tick : x_.ticks(8)) {
      svg += fmt::format("<path d=\"M{:.1f} {}V{}\"/>\n", x_(tick), plot_bottom, plot_top);
      texts += svg_text(x_(tick), plot_bottom + 18, tick_text(tick), " text-anchor=\"middle\"");
    }
    svg += fmt::format("</g>\n<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"#777\"/>\n", plot_left, plot_top,
                       plot_bottom, plot_right);
    constexpr double middle = (plot_top + plot_bottom) / 2;
    return svg + texts +
           svg_text((plot_left + plot_right) / 2, plot_bottom + 40, axis_heading("step time", time_, x_),
                    " text-anchor=\"middle\"") +
           svg_text(16, middle, axis_heading("peak memory of the fullest rank", memory_, y_),
                    fmt::format(" text-anchor=\"middle\" transform=\"rotate(-90 16 {})\"", middle));
  }

  std::string note() const {
    const LayoutSearchResult& result = report_.result;
    const std::size_t kept = drawn_.size() - result.front.size() - (result.written ? 1 : 0);
    if (kept == result.layouts.size()) return "";
    return svg_text(plot_left, picture_height - 10,
                    fmt::format("Not drawn: {}.", counted(static_cast<std::int64_t>(result.layouts.size() - kept),
                                                          "slower or larger layout", "slower or larger layouts")));
  }

  std::string circle(const LayoutCandidate& layout, std::string_view kind, double radius) {
    const Pixel at = place_of(layout);
    dots_.push_back(at);
    return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>\n", kind,
                       at.x, at.y, radius, html_text(title_of(report_, layout)));
  }

  /// The estimates lie below the plans. Of dots at the same pixel, one is drawn, so that the file stays small.
  std::string dots() {
    std::string svg;
    for (const bool planned : {false, true}) {
      svg += fmt::format("<g {}>\n", planned ? plan_style : estimate_style);
      std::set<std::pair<long, long>> taken;
      for (const LayoutCandidate* const each : drawn_) {
        const Pixel at = place_of(*each);
        if (each->is_planned() == planned && taken.emplace(std::lround(at.x), std::lround(at.y)).second)
          svg += circle(*each, planned ? "plan" : "estimate", planned ? 3 : 2.5);
      }
      svg += "</g>\n";
    }
    return svg;
  }

  /// At each time, the line is at the least memory with which a step is as fast. Estimates are hollow.
  std::string front() {
    std::string path;
    std::string plans;
    std::string estimates;
    for (const LayoutCandidate& each : report_.result.front) {
      const Pixel at = place_of(each);
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", at.x, at.y) : fmt::format("H{:.1f}V{:.1f}", at.x, at.y);
      add_to_line(at);
      (each.is_planned() ? plans : estimates) += circle(each, "front", 4.5);
    }
    return fmt::format(
        "<path d=\"{0}\" fill=\"none\" stroke=\"{1}\" stroke-width=\"2\"/>\n"
        "<g fill=\"{1}\" stroke=\"#fff\">\n{2}</g>\n<g fill=\"#fff\" stroke=\"{1}\" stroke-width=\"2\">\n{3}</g>\n",
        path, blue, plans, estimates);
  }

  /// Up to the next point of the front.
  void add_to_line(const Pixel& to) {
    constexpr double spacing = 8;  // less than a label's height
    const Pixel from = line_.empty() ? to : line_.back();
    for (double x = from.x; x < to.x; x += spacing) line_.push_back({x, from.y});
    for (double y = from.y; y < to.y; y += spacing) line_.push_back({to.x, y});
    line_.push_back(to);
  }

  /// What does not fit lies on a ground of another colour.
  std::string over_budget() const {
    if (!has_budget_line_) return "";
    return fmt::format("<path d=\"M{} {}H{}V{:.1f}H{}z\" fill=\"{}\" fill-opacity=\"0.06\"/>\n", plot_left, plot_top,
                       plot_right, y_of(budget_), plot_left, orange);
  }

  std::string budget() {
    if (budget_ == 0) return "";
    const std::string text = report_.rank_budgets.empty() ? "budget " + format_bytes(report_.budget) : "budgets";
    const auto at = [](double y, bool ends) { return LabelPlace{{ends ? plot_right - 8 : plot_left + 8, y}, ends}; };
    if (!has_budget_line_)
      return label(text + ", above this picture", {at(plot_top + 15, true), at(plot_top + 15, false)}, orange);
    const double y = y_of(budget_);
    const std::string words =
        label(text, {at(y - 6, true), at(y - 6, false), at(y + 15, true), at(y + 15, false)}, orange);
    for (double x = plot_left; x <= plot_right; x += 8) line_.push_back({x, y});
    return words + fmt::format(
                       "<path class=\"budget\" d=\"M{} {:.1f}H{}\" stroke=\"{}\" stroke-width=\"1.5\" "
                       "stroke-dasharray=\"7 4\"/>\n",
                       plot_left, y, plot_right, orange);
  }

  std::string to_svg(const Mark& mark) {
    const Pixel at = place_of(*mark.layout);
    std::vector<LabelPlace> places;
    for (const double below : {-10.0, 20.0, 4.0, -28.0, 38.0})
      for (const bool ends : {false, true}) places.push_back({{at.x + (ends ? -13 : 13), at.y + below}, ends});
    return fmt::format("<path class=\"{}\" transform=\"translate({:.1f} {:.1f})\" {}><title>{}</title></path>\n",
                       mark.kind, at.x, at.y, outline_of(mark), html_text(title_of(report_, *mark.layout))) +
           label(mark.name, places, mark.colour);
  }

  /// The text where it covers least.
  std::string label(std::string_view text, const std::vector<LabelPlace>& places, std::string_view colour) {
    const auto covered = [&](const LabelPlace& place) {
      const TextBox box = place.box(text);
      const bool is_inside =
          box.left > plot_left && box.right < plot_right && box.top > plot_top && box.bottom < plot_bottom;
      double sum = is_inside ? 0 : 1e6;
      for (const TextBox& other : labels_) sum += box.overlaps(other) ? 1e4 : 0;
      for (const Pixel& of_line : line_) sum += box.contains(of_line) ? 100 : 0;
      for (const Pixel& dot : dots_) sum += box.contains(dot) ? 1 : 0;
      return sum;
    };
    const LabelPlace& place = *std::ranges::min_element(places, {}, covered);
    labels_.push_back(place.box(text));
    return svg_text(place.at.x, place.at.y, text,
                    fmt::format("{} fill=\"{}\" font-weight=\"bold\" stroke=\"#fff\" stroke-width=\"4\" "
                                "stroke-linejoin=\"round\" paint-order=\"stroke\"",
                                place.ends ? " text-anchor=\"end\"" : "", colour));
  }

  const LayoutReport& report_;
  Layouts drawn_;
  Unit time_;
  Unit memory_;
  double budget_;
  bool has_budget_line_;
  ChartAxis x_;
  ChartAxis y_;
  // What labels should not cover.
  std::vector<Pixel> dots_;
  std::vector<Pixel> line_;
  std::vector<TextBox> labels_;
};

}  // namespace

std::string layouts_svg(const LayoutReport& report) {
  return LayoutPicture(report).draw();
}

}  // namespace heddle
