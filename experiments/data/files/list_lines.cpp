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

void for_each_pair(const std::string& path, std::string_view expected,
                   const std::function<void(std::int64_t, std::string_view, std::string_view)>& use) {
  for_each_line(path, [&](std::int64_t number, std::string_view text) {
    const std::string_view line = without_blanks(text);
    if (line.empty()) return;
    std::size_t split = line.rfind('\t');
    if (split == std::string_view::npos) split = line.rfind(' ');
    if (split == std::string_view::npos)
      fail<InputError>("{}: line {}: expected {}, got {}", path, number, expected, in_quotes(line));
    use(number, without_blanks(line.substr(0, split)), without_blanks(line.substr(split)));
  });
}

void read_list(const std::string& path, const ListColumns& columns,
               const std::function<void(const ListedSample&)>& use) {
  if (columns.path.empty()) {
    for_each_pair(path, "a path and a label", [&](std::int64_t number, std::string_view file, std::string_view label) {
      use({.line = number, .path = file, .label = label});
    });
    return;
  }
  struct Places {
    std::size_t path, label, weight;
  };
  std::optional<Places> at;
  std::size_t width = 0;
  for_each_line(path, [&](std::int64_t number, std::string_view line) {
    if (line.empty()) return;
    const std::vector<std::string> fields = csv_fields(path, number, line);
    if (!at) {
      at = {column(path, fields, columns.path), column(path, fields, columns.label),
            columns.weight.empty() ? fields.size() : column(path, fields, columns.weight)};
      width = fields.size();
      return;
    }
    if (fields.size() != width)
      fail<InputError>("{}: line {}: expected {} fields as in line 1, got {}", path, number, width, fields.size());
    ListedSample sample{.line = number, .path = fields[at->path], .label = fields[at->label]};
    if (sample.path.empty()) fail<InputError>("{}: line {}: no path", path, number);
    if (sample.label.empty()) fail<InputError>("{}: line {}: no label", path, number);
    if (at->weight < width) {
      sample.weight = fields[at->weight];
      if (sample.weight.empty()) fail<InputError>("{}: line {}: no weight", path, number);
    }
    use(sample);
  });
}

}  // namespace heddle
