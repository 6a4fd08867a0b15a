// A timeline as a picture, one row a rank, time to the right: of a schedule that was simulated or of a run.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/pipeline/timeline.h"

namespace heddle {

/// How a kind of action is drawn, in the terminal and as SVG.
struct ActionLook {
  ActionKind kind;
  std::string_view meaning;
  /// Of the first, third, .. stage of a rank, and of the others: of a terminal's 256 colours, and of the web's.
  std::array<int, 2> terminal_colours;
  std::array<std::string_view, 2> web_colours;
};
/// Of a kind that computes.
const ActionLook& look_of(ActionKind kind);
/// The looks that a timeline needs, in the order in which legends explain them.
std::vector<ActionLook> looks_in(const Timeline& timeline);

/// Of each stage: how many stages before it are on its rank.
std::vector<int> chunks_of_stages(std::span<const int> rank_of);

/// The longest time that all begins and ends are whole multiples of; none if that would be less than 1e-5 of the whole.
std::optional<double> unit_of_time(const Timeline& timeline);

/// `1456750`, `0.3333`, `2.5e-06`.
std::string plain_number(double value);

struct PictureStyle {
  int columns = 120;
  bool colour = false;  // else letters
};

/// For a terminal, as wide as the style allows and with a legend. Each action is named if there is room for it; else
/// a character is a unit of time or several, and the legend says so. The middle ones of very many ranks are left out.
std::string picture_text(const Timeline& timeline, std::span<const int> rank_of, const PictureStyle& style);

/// One file that needs no other. Every action has a title with its name and times. What is past the first 50,000
/// actions of the first 256 ranks is cut, and the picture says so.
std::string picture_svg(const Timeline& timeline, std::span<const int> rank_of, std::string_view title);

}  // namespace heddle
