#include "experiments/data/files/people_list.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "experiments/data/files/text_lines.h"
#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {
namespace {

struct Line {
  std::int64_t number;
  std::string text;
};

/// Reads the people of a file in LFW's format.
class LfwReader {
 public:
  LfwReader(const std::string& path, const std::vector<Line>& lines) : path_(path), lines_(lines) {}

  std::vector<ListedPerson> read() {
    const std::int64_t first = count("people or folds");
    // If two numbers come first, the first is the number of folds, and each fold begins with its number of people.
    const bool has_folds = at_ < lines_.size() && decimal(lines_[at_].text);
    for (std::int64_t fold = 0; fold < (has_folds ? first : 1); ++fold) read_fold(has_folds ? count("people") : first);
    if (at_ < lines_.size())
      fail<InputError>("{}: line {}: more people than the {} that the file announces", path_, lines_[at_].number,
                       people_.size());
    return std::move(people_);
  }

 private:
  std::int64_t count(std::string_view what) {
    if (at_ == lines_.size()) fail<InputError>("{}: expected a number of {}, got the end of the file", path_, what);
    const Line& line = lines_[at_++];
    const std::optional<std::int64_t> number = decimal(line.text);
    if (!number)
      fail<InputError>("{}: line {}: expected a number of {}, got {}", path_, line.number, what, in_quotes(line.text));
    return *number;
  }

  void read_fold(std::int64_t people) {
    for (std::int64_t i = 0; i < people; ++i) {
      if (at_ == lines_.size()) fail<InputError>("{}: {} people announced, {} found", path_, people, i);
      const Line& line = lines_[at_++];
      const std::size_t tab = line.text.find('\t');
      const std::string_view after_tab = tab == std::string::npos ? "" : std::string_view(line.text).substr(tab + 1);
      const std::optional<std::int64_t> images = decimal(after_tab);
      if (tab == 0 || !images)
        fail<InputError>("{}: line {}: expected a name, a tab and a number of images, got {}", path_, line.number,
                         in_quotes(line.text));
      people_.push_back({line.text.substr(0, tab), images, line.number});
    }
  }

  const std::string& path_;
  const std::vector<Line>& lines_;
  std::size_t at_ = 0;
  std::vector<ListedPerson> people_;
};

}  // namespace

std::vector<ListedPerson> read_people(const std::string& path) {
  std::vector<Line> lines;
  bool has_tabs = false;
  for_each_line(path, [&](std::int64_t number, std::string_view text) {
    has_tabs = has_tabs || text.find('\t') != std::string_view::npos;
    if (!text.empty()) lines.push_back({number, std::string(text)});
  });
  if (lines.empty()) fail<InputError>("{}: there is no name in it", path);
  std::vector<ListedPerson> people;
  if (has_tabs)
    people = LfwReader(path, lines).read();
  else
    for (Line& line : lines) people.push_back({std::move(line.text), {}, line.number});
  std::unordered_set<std::string_view> seen;
  for (const ListedPerson& person : people)
    if (!seen.insert(person.name).second)
      fail<InputError>("{}: line {}: {} is listed twice", path, person.line, in_quotes(person.name));
  return people;
}

}  // namespace heddle
