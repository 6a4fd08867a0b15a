#include "experiments/data/files/list_lines.h"

#include <algorithm>
#include <optional>

#include "experiments/data/files/text_lines.h"
#include "framework/description/nearest.h"
#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {
namespace {

constexpr std::string_view blanks = " \t";

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

std::size_t column(const std::string& path, const std::vector<std::string>& names, const std::string& wanted) {
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::optional<std::string> near = nearest(wanted, names);
  fail<InputError>("{}: line 1: no column {}{}", path, in_quotes(wanted),
                   near ? fmt::format("; did you mean {}?", in_quotes(*near)) : "");
}

}  // namespace

std::vector<std::string> csv_fields(const std::string& path, std::int64_t number, std::string_view line) {
  std::vector<std::string> fields;
  std::size_t at = 0;
  for (;;) {
    std::string field;
    if (at < line.size() && line[at] == '"') {
      for (;;) {
        const std::size_t end = line.find('"', at + 1);
        if (end == std::string_view::npos)
          fail<InputError>("{}: line {}: field {} has no closing quote", path, number, fields.size() + 1);
        field += line.substr(at + 1, end - at - 1);
        at = end + 1;
        if (at == line.size() || line[at] != '"') break;
        field += '"';
      }
      if (at < line.size() && line[at] != ',')
        fail<InputError>("{}: line {}: field {} continues after its closing quote", path, number, fields.size() + 1);
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      field = line.substr(at, end - at);
      if (field.find('"') != std::string::npos)
        fail<InputError>("{}: line {}: a quote inside field {}, which is not in quotes", path, number,
                         fields.size() + 1);
      at = end;
    }
    fields.push_back(std::move(field));
    if (at == line.size()) return fields;
    ++at;  // the comma
  }
}

void read_list(const std::string& path, const ListColumns& columns,
               const std::function<void(std::int64_t, std::string_view, std::string_view)>& use) {
  const bool is_csv = !columns.path.empty();
  std::optional<std::size_t> path_column;
  std::size_t label_column = 0;
  std::size_t width = 0;
  const auto read_csv = [&](std::int64_t number, std::string_view line) {
    const std::vector<std::string> fields = csv_fields(path, number, line);
    if (!path_column) {
      path_column = column(path, fields, columns.path);
      label_column = column(path, fields, columns.label);
      width = fields.size();
      return;
    }
    if (fields.size() != width)
      fail<InputError>("{}: line {}: expected {} fields as in line 1, got {}", path, number, width, fields.size());
    if (fields[*path_column].empty()) fail<InputError>("{}: line {}: no path", path, number);
    if (fields[label_column].empty()) fail<InputError>("{}: line {}: no label", path, number);
    use(number, fields[*path_column], fields[label_column]);
  };
  for_each_line(path, [&](std::int64_t number, std::string_view text) {
    const std::string_view line = is_csv ? text : without_blanks(text);
    if (line.empty()) return;
    if (is_csv) return read_csv(number, line);
    std::size_t split = line.rfind('\t');
    if (split == std::string_view::npos) split = line.rfind(' ');
    if (split == std::string_view::npos)
      fail<InputError>("{}: line {}: expected a path and a label, got {}", path, number, in_quotes(line));
    use(number, without_blanks(line.substr(0, split)), without_blanks(line.substr(split)));
  });
}

}  // namespace heddle
