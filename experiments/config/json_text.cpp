#include "experiments/config/json_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/config/wording.h"

namespace heddle {
namespace {

/// "line 3, column 14" of the byte at `offset`.
std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", line, before.size() - start + 1);
}

/// The text between two marks, if both are there; an empty `end` means the end.
std::optional<std::string> between_marks(std::string_view text, std::string_view start, std::string_view end) {
  std::size_t from = text.find(start);
  if (from == std::string_view::npos) return std::nullopt;
  from += start.size();
  const std::size_t to = end.empty() ? std::string_view::npos : text.rfind(end);
  if (!end.empty() && (to == std::string_view::npos || to < from)) return std::nullopt;
  return std::string(text.substr(from, to == std::string_view::npos ? to : to - from));
}

/// The JSON library's names of tokens in our words.
std::string token_name(const std::string& name) {
  if (name == "string literal") return "a string";
  if (name == "number literal") return "a number";
  if (name == "end of input") return "the end";
  if (name == "'[', '{', or a literal") return "a value";
  if (name.ends_with(" literal")) return name.substr(0, name.size() - 8);
  return name;
}

/// The word that reaches over the byte at `offset`, or ends before it.
std::string_view word_at(std::string_view text, std::size_t offset) {
  const auto is_word = [&](std::size_t i) {
    return i < text.size() && std::string_view(" \t\r\n,:[]{}\"").find(text[i]) == std::string_view::npos;
  };
  std::size_t start = std::min(offset, text.size());
  while (start > 0 && is_word(start - 1)) --start;
  std::size_t end = std::min(offset, text.size());
  while (is_word(end)) ++end;
  return text.substr(start, std::max<std::size_t>(end - start, 1));
}

/// The JSON library's message in our form: what was expected, and what was read. The library's is one of
///
///   ...syntax error while parsing value - unexpected end of input; expected ']'
///   ...syntax error while parsing value - invalid number; expected digit after '.'; last read: '1.'
///
/// The parser's expectation stands at the end; what the lexer expected, before the text that it read last, is a part of
/// its reason.
std::string syntax_message(const std::string& what, std::string_view text, std::size_t offset) {
  constexpr std::string_view expectation = "; expected ";
  constexpr std::string_view last_read = "; last read: '";
  if (const auto number = between_marks(what, "number overflow parsing '", "'")) {
    return fmt::format("expected a number below 1.8e308, got {}", shortened(*number));
  }
  std::string expected = "a value";
  std::size_t end = what.rfind(expectation);
  const std::size_t record = what.find(last_read);
  const bool is_of_parser =
      end != std::string::npos && (record == std::string::npos || (end > record && what[end - 1] == '\''));
  if (is_of_parser) {
    expected = token_name(what.substr(end + expectation.size()));
  } else {
    end = what.size();
  }
  const std::string rest = what.substr(0, end);
  if (const auto got = between_marks(rest, " - unexpected ", "")) {
    return fmt::format("expected {}, got {}", expected, token_name(*got));
  }
  const std::string reason = between_marks(rest, " - ", last_read).value_or("not JSON");
  // The library's record of a string begins at its quote; that of a word may begin too early.
  const bool is_string = reason.starts_with("invalid string");
  const std::string last =
      is_string ? between_marks(rest, last_read, "'").value_or("") : std::string(word_at(text, offset));
  return fmt::format("expected {}, got {} ({})", expected, shortened(last), printable(reason));
}

class Builder {
 public:
  Builder(std::string_view text, std::string_view name, ParsedJson& result)
      : text_(text), name_(name), result_(result) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return add(Real{static_cast<double>(value), std::to_string(value)});
    }
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& text) { return add(Real{value, text}); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*size*/) { return open(Object{}); }
  bool start_array(std::size_t /*size*/) { return open(Array{}); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& key) {
    Frame& frame = frames_.back();
    frame.is_duplicate = !frame.keys.insert(key).second;
    frame.key = std::move(key);
    frame.has_key = true;
    if (frame.is_duplicate && result_.duplicates.size() < max_problems) {
      result_.duplicates.push_back({pointer(), static_cast<std::uint32_t>(result_.values)});
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    const std::size_t offset = position == 0 ? 0 : position - 1;
    std::string place = line_and_column(text_, offset);
    if (const std::string path = pointer(); !path.empty()) place += ": " + path;
    throw NotJson(fmt::format("{}: {}: {}", name_, place, syntax_message(error.what(), text_, offset)));
  }

 private:
  struct Frame {
    Value value;
    std::string key;
    bool has_key = false;
    bool is_duplicate = false;
    std::unordered_set<std::string> keys;
  };

  template <class Data>
  Value make(Data data) {
    if (++result_.values > max_json_values) fail<InputError>("{}: expected at most {} values", name_, max_json_values);
    Value value;
    value.data = std::move(data);
    value.order = static_cast<std::uint32_t>(result_.values);
    return value;
  }
  template <class Data>
  bool add(Data data) {
    return place(make(std::move(data)));
  }
  template <class Data>
  bool open(Data data) {
    if (frames_.size() == max_json_levels) {
      fail<InputError>("{}: {}: expected at most {} levels of nesting", name_, shortened(pointer()), max_json_levels);
    }
    Value value = make(std::move(data));
    frames_.emplace_back().value = std::move(value);
    return true;
  }
  bool close() {
    Value value = std::move(frames_.back().value);
    frames_.pop_back();
    return place(std::move(value));
  }
  bool place(Value value) {
    if (frames_.empty()) {
      result_.root = std::move(value);
      return true;
    }
    Frame& frame = frames_.back();
    if (Array* const array = frame.value.get_if<Array>()) {
      array->push_back(std::move(value));
    } else if (!frame.is_duplicate) {
      frame.value.get_if<Object>()->push_back({std::move(frame.key), std::move(value)});
    }
    frame.has_key = false;
    return true;
  }
  std::string pointer() const {
    std::string result;
    for (const Frame& frame : frames_) {
      if (const Array* const array = frame.value.get_if<Array>()) {
        result = child_pointer(result, array->size());
      } else if (frame.has_key) {
        result = child_pointer(result, frame.key);
      }
    }
    return result;
  }

  std::string_view text_;
  std::string_view name_;
  ParsedJson& result_;
  std::vector<Frame> frames_;
};

std::string number_text(double value) {
  if (!std::isfinite(value)) fail<Error>("JSON cannot hold the number {}", value);
  return fmt::format("{}", value);
}

bool is_flat(const Array& array) {
  return std::none_of(array.begin(), array.end(), [](const Value& v) { return v.is<Array>() || v.is<Object>(); });
}

/// Objects in lists are written on one line up to this length.
constexpr std::size_t max_object_line = 100;

bool is_flat(const Object& object) {
  return std::none_of(object.begin(), object.end(), [](const Member& member) {
    return member.value.is<Object>() || (member.value.is<Array>() && !is_flat(*member.value.get_if<Array>()));
  });
}

/// `indent` is the column of the enclosing line; without it everything is written on one line.
void write(const Value& value, std::optional<std::size_t> indent, std::string& out) {
  const std::optional<std::size_t> inner = indent ? std::optional(*indent + 2) : std::nullopt;
  const auto items = [&](char open, char close, const auto& list, bool one_line, const auto& write_item) {
    out += open;
    bool first = true;
    for (const auto& item : list) {
      if (!first) out += one_line ? ", " : ",";
      if (!one_line) out += '\n' + std::string(inner.value(), ' ');
      write_item(item);
      first = false;
    }
    if (!one_line && !list.empty()) out += '\n' + std::string(indent.value(), ' ');
    out += close;
  };
  if (const auto* const flag = value.get_if<bool>()) {
    out += *flag ? "true" : "false";
  } else if (const auto* const integer = value.get_if<std::int64_t>()) {
    out += std::to_string(*integer);
  } else if (const auto* const real = value.get_if<Real>()) {
    out += real->text.empty() ? number_text(real->value) : real->text;
  } else if (const auto* const text = value.get_if<std::string>()) {
    out += json_string(*text);
  } else if (const auto* const array = value.get_if<Array>()) {
    items('[', ']', *array, !indent || is_flat(*array), [&](const Value& item) {
      if (const Object* const object = item.get_if<Object>(); object != nullptr && is_flat(*object))
        if (const std::string line = to_line(item); line.size() <= max_object_line) {
          out += line;
          return;
        }
      write(item, inner, out);
    });
  } else if (const auto* const object = value.get_if<Object>()) {
    items('{', '}', *object, !indent, [&](const Member& item) {
      out += json_string(item.key) + ": ";
      write(item.value, inner, out);
    });
  } else {
    out += "null";
  }
}

}  // namespace

ParsedJson parse_json(std::string_view text, std::string_view name) {
  if (text.size() > max_json_bytes) fail<InputError>("{}: expected at most {} MiB", name, max_json_bytes >> 20);
  // The library takes a zero byte for the end of the text and would ignore what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw NotJson(fmt::format("{}: {}: expected text, got a zero byte", name, line_and_column(text, zero)));
  }
  ParsedJson result;
  Builder builder(text, name, result);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) fail<InputError>("{}: expected JSON", name);
  return result;
}

std::string to_text(const Value& value) {
  std::string out;
  write(value, 0, out);
  return out + '\n';
}

std::string to_line(const Value& value) {
  std::string out;
  write(value, std::nullopt, out);
  return out;
}

}  // namespace heddle
