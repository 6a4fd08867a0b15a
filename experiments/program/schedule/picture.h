// The timeline of a simulated schedule or of a run as a picture: one row per rank, time to the right.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/pipeline/critical_path.h"
#include "parallel/pipeline/timeline.h"

namespace heddle {

/// How a kind of action is drawn, in the terminal and as SVG.
struct ActionLook {
  ActionKind kind;
  std::string_view meaning;
  /// Colours of the first, third, .. stage of a rank, and of its other stages: from a terminal's 256, and for the web.
  std::array<int, 2> terminal_colours;
  std::array<std::string_view, 2> web_colours;
};
/// The appearance of a kind of action that computes.
const ActionLook& look_of(ActionKind kind);
/// The appearances that a timeline needs, in the order in which legends explain them.
std::vector<ActionLook> looks_in(const Timeline& timeline);

/// Calls `use` for all actions, and for all O and L.
template <class Use>
void for_each_timed(const Timeline& timeline, const Use& use) {
  for (const auto* const rows : {&timeline.ranks, &timeline.host_links})
    for (const std::vector<TimedAction>& row : *rows)
      for (const TimedAction& timed : row) use(timed);
}
/// Whether an O or L takes time, so that pictures have a row for the link of each rank.
bool draws_host_links(const Timeline& timeline);

/// Tells the stages of a rank apart.
class ChunkNumbers {
 public:
  explicit ChunkNumbers(const Schedule& schedule);
  /// The number of earlier stages on the rank that computes the action. The stages of a second copy follow those of the
  /// first.
  int of(const Action& action) const;
  /// Whether a rank has several stages.
  bool any() const;

 private:
  const Schedule& schedule_;
  std::vector<int> numbers_;  // by Schedule::stage_index
};

/// The longest time of which all begins and ends are multiples; none if it is shorter than 1e-5 of the whole.
std::optional<double> unit_of_time(const Timeline& timeline);

/// `1456750`, `0.3333`, `2.5e-06`.
std::string plain_number(double value);

struct PictureStyle {
  int columns = 120;
  bool colour = false;  // else letters
};

/// For a terminal, as wide as the style allows and with a legend. Each action is named if there is room; otherwise one
/// character stands for one or more units of time, as the legend says. Of very many ranks the middle ones are left out.
/// The actions of a critical path are marked by a * behind their names, or below their characters.
std::string picture_text(const Timeline& timeline, const Schedule& schedule, const PictureStyle& style,
                         const CriticalPath* critical = nullptr);

/// One self-contained file. Every action has a title with its name and times. The picture ends after the first 50,000
/// actions and 256 ranks, and then says so. A critical path is drawn as frames of its actions and lines of its
/// messages.
std::string picture_svg(const Timeline& timeline, const Schedule& schedule, std::string_view title,
                        const CriticalPath* critical = nullptr);

/// For each action of each rank, whether it is on the path.
std::vector<std::vector<bool>> marks_of(const Timeline& timeline, const CriticalPath& path);

}  // namespace heddle
