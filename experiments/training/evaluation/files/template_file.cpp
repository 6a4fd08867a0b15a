#include "experiments/training/evaluation/files/template_file.h"

#include <unordered_map>

#include "experiments/training/evaluation/files/column_reader.h"
#include "experiments/training/evaluation/files/image_files.h"
#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

std::int64_t number_in(const ColumnReader& list, std::string_view text, const char* what) {
  const std::optional<std::int64_t> number = decimal(text);
  if (!number) list.refuse("expected the number of a {}, got {}", what, in_quotes(text));
  return *number;
}

void expect_columns(const ColumnReader& list, const char* what) {
  if (list.columns().size() != 3) list.refuse("expected \"{}\", got {}", what, in_quotes(list.line()));
}

}  // namespace

TemplateSet read_template_set(const std::filesystem::path& templates, const std::filesystem::path& pairs,
                              const std::filesystem::path& folder) {
  TemplateSet set;
  ImageFiles files(folder);
  std::unordered_map<std::int64_t, std::int64_t> numbers;
  ColumnReader members(templates);
  while (members.next()) {
    expect_columns(members, "image template medium");
    const std::int64_t group = number_in(members, members.columns()[1], "template");
    const std::int64_t medium = number_in(members, members.columns()[2], "medium");
    const auto [place, is_new] = numbers.try_emplace(group, set.templates);
    if (is_new) ++set.templates;
    const std::optional<std::int64_t> image = files.number_of(members.columns()[0]);
    if (!image) members.refuse("there is no file {}", files.path_of(members.columns()[0]));
    set.images.push_back({.image = *image, .group = place->second, .medium = medium});
  }
  set.files = files.take();
  ColumnReader compared(pairs);
  const auto template_in = [&](std::string_view text) {
    const std::int64_t group = number_in(compared, text, "template");
    const auto found = numbers.find(group);
    if (found == numbers.end()) compared.refuse("template {} has no image in {}", group, templates.string());
    return found->second;
  };
  while (compared.next()) {
    expect_columns(compared, "template template 1");
    const std::vector<std::string_view>& columns = compared.columns();
    if (columns[2] != "0" && columns[2] != "1")
      compared.refuse("expected 1 for one person or 0 for two, got {}", in_quotes(columns[2]));
    set.pairs.push_back(
        {.first = template_in(columns[0]), .second = template_in(columns[1]), .same = columns[2] == "1"});
  }
  return set;
}

}  // namespace heddle
