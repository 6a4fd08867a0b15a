#include "framework/description/plain_text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/description/printable.h"

namespace heddle {
namespace {

constexpr std::string_view equals = " = ";

class PlainTextWriter final : public Describer {
 public:
  std::string take() { return std::move(text_); }

  void field(Key key, bool& value, std::string_view /*help*/) override { line(key.name, value ? "true" : "false"); }
  void field(Key key, std::int64_t& value, Range /*range*/, std::string_view /*help*/) override {
    line(key.name, fmt::format("{}", value));
  }
  void field(Key key, double& value, Range /*range*/, std::string_view /*help*/) override {
    line(key.name, fmt::format("{}", value));
  }
  void field(Key key, std::string& value, std::string_view /*help*/) override { line(key.name, json_string(value)); }
  void field(Key key, std::vector<std::int64_t>& value, Range /*each*/, Range /*length*/,
             std::string_view /*help*/) override {
    line(key.name, fmt::format("[{}]", fmt::join(value, ", ")));
  }
  void field(Key key, std::vector<double>& value, Range /*each*/, Range /*length*/,
             std::string_view /*help*/) override {
    line(key.name, fmt::format("[{}]", fmt::join(value, ", ")));
  }
  void field(Key key, std::vector<std::string>& value, Range /*length*/, std::string_view /*help*/) override {
    std::vector<std::string> items;
    for (const std::string& item : value) items.push_back(json_string(item));
    line(key.name, fmt::format("[{}]", fmt::join(items, ", ")));
  }
  void choice(Key key, int& value, std::span<const std::string_view> names, std::string_view /*help*/) override {
    line(key.name, json_string(names[static_cast<std::size_t>(value)]));
  }
  void subset(Key key, unsigned& value, std::span<const std::string_view> names, std::string_view /*all*/,
              std::size_t /*least*/, std::string_view /*help*/) override {
    std::vector<std::string> chosen;
    for (std::size_t i = 0; i < names.size(); ++i)
      if ((value >> i & 1U) != 0) chosen.push_back(json_string(names[i]));
    line(key.name, fmt::format("[{}]", fmt::join(chosen, ", ")));
  }
  void object(Key key, const Body& body, std::string_view /*help*/) override { within(key.name, body); }
  void optional_object(Key key, bool& present, const Body& body, std::string_view /*help*/) override {
    if (present) within(key.name, body);
  }
  void list(Key key, const List& value, Range /*length*/, std::string_view /*help*/) override {
    for (std::size_t i = 0; i < value.size(); ++i)
      within(fmt::format("{}.{}", key.name, i), [&](Describer& d) { value.element(d, i); });
  }
  void object_or_list(Key key, const List& value, Range length, std::string_view help) override {
    if (value.size() > 1) return list(key, value, length, help);
    within(key.name, [&](Describer& d) { value.element(d, 0); });
  }
  void alternatives(int& type, std::span<const Alternative> alternatives, std::string_view /*help*/) override {
    if (type < 0) return;
    const Alternative& chosen = alternatives[static_cast<std::size_t>(type)];
    line("type", json_string(chosen.type));
    chosen.body(*this);
  }

 private:
  void line(std::string_view name, std::string_view value) {
    text_.append(prefix_).append(name).append(equals).append(value).append("\n");
  }
  void within(std::string_view name, const Body& body) {
    const std::size_t length = prefix_.size();
    prefix_.append(name).append(".");
    body(*this);
    prefix_.resize(length);
  }

  std::string text_;
  std::string prefix_;
};

struct Line {
  std::string_view key;
  std::string_view value;
};

/// The lines of a text whose top-level key is none of `except`.
std::vector<Line> lines_of(std::string_view text, std::span<const std::string_view> except) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t at = line.find(equals);
    if (at == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, at);
    if (std::find(except.begin(), except.end(), key.substr(0, key.find('.'))) == except.end())
      lines.push_back({key, line.substr(at + equals.size())});
  }
  return lines;
}

/// The value of a key; nothing if no line has it.
std::optional<std::string_view> value_of(const std::vector<Line>& lines, std::string_view key) {
  const auto found = std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return line.key == key; });
  return found == lines.end() ? std::nullopt : std::optional(found->value);
}

std::string value_in_words(std::optional<std::string_view> value) {
  return value ? shortened(*value) : "nothing";
}

}  // namespace

std::string plain_text(const Describer::Body& body) {
  PlainTextWriter writer;
  body(writer);
  return writer.take();
}

std::optional<Change> first_change_of_plain_text(std::string_view before, std::string_view now,
                                                 std::span<const std::string_view> except) {
  const std::vector<Line> old_lines = lines_of(before, except);
  const std::vector<Line> new_lines = lines_of(now, except);
  for (const auto& [key, value] : new_lines)
    if (const auto old_value = value_of(old_lines, key); old_value != value)
      return Change{printable(key), value_in_words(old_value), value_in_words(value)};
  for (const auto& [key, value] : old_lines)
    if (!value_of(new_lines, key)) return Change{printable(key), value_in_words(value), value_in_words({})};
  return {};
}

}  // namespace heddle
