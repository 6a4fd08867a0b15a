#include "experiments/export/npy.h"

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::string_view f32_name = "<f4";
constexpr std::uint64_t max_header_bytes = 65'536;

struct NpyHeader {
  std::string type;
  bool is_fortran = false;
  std::vector<std::int64_t> shape;
};

/// Reads the description, which is a dictionary as Python writes it:
/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
class NpyHeaderReader {
 public:
  explicit NpyHeaderReader(std::string_view text) : text_(text) {}

  /// Nothing if the text is something else.
  std::optional<NpyHeader> read() {
    NpyHeader header;
    int keys = 0;
    if (!takes('{')) return {};
    while (!takes('}')) {
      const std::optional<std::string> key = quoted();
      if (!key || !takes(':') || !read_value(*key, header)) return {};
      ++keys;
      if (!takes(',') && peek() != '}') return {};
    }
    return keys == 3 && peek() == '\0' ? std::optional(header) : std::nullopt;
  }

 private:
  bool read_value(std::string_view key, NpyHeader& header) {
    if (key == "descr") {
      const std::optional<std::string> type = quoted();
      header.type = type.value_or("");
      return type.has_value();
    }
    if (key == "fortran_order") {
      header.is_fortran = takes_word("True");
      return header.is_fortran || takes_word("False");
    }
    return key == "shape" && read_shape(header.shape);
  }
  bool read_shape(std::vector<std::int64_t>& shape) {
    if (!takes('(')) return false;
    while (!takes(')')) {
      peek();
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      if (error != std::errc{} || number < 0) return false;
      at_ = static_cast<std::size_t>(end - text_.data());
      shape.push_back(number);
      if (!takes(',') && peek() != ')') return false;
    }
    return true;
  }
  std::optional<std::string> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return {};
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return {};
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  /// The next character that is not blank; 0 at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool takes(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool takes_word(std::string_view word) {
    peek();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

NpyWriter::NpyWriter(std::filesystem::path path, std::int64_t rows, std::int64_t columns)
    : file_(std::move(path)), missing_(static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(columns)) {
  constexpr std::size_t before_text = 10;
  constexpr std::size_t alignment = 64;
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}", f32_name, rows, columns);
  text.append(alignment - (before_text + text.size() + 1) % alignment, ' ');
  text += '\n';
  file_.write(magic);
  file_.write(std::string_view("\x01\x00", 2));  // version 1.0
  const auto size = static_cast<std::uint16_t>(text.size());
  file_.write(std::as_bytes(std::span(&size, 1)));
  file_.write(text);
}

void NpyWriter::append(std::span<const float> values) {
  if (values.size() > missing_) fail("{}: more rows than were announced", file_.target().string());
  file_.write(std::as_bytes(values));
  missing_ -= values.size();
}

void NpyWriter::finish() {
  if (missing_ != 0) fail("{}: {} numbers are missing", file_.target().string(), missing_);
  file_.finish();
}

NpyReader::NpyReader(const std::filesystem::path& path) : file_(FileDescriptor::open_for_reading(path)) {
  const std::string name = path.string();
  std::array<char, 12> start{};
  const std::uint64_t size = file_.size();
  if (size < start.size()) fail<InputError>("{}: is not a .npy file: it has {} bytes", name, size);
  file_.read_at(0, std::as_writable_bytes(std::span(start)));
  if (std::string_view(start.data(), magic.size()) != magic) fail<InputError>("{}: is not a .npy file", name);
  const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(start[i])}; };
  const bool is_first = byte(6) == 1;
  if (byte(6) < 1 || byte(6) > 3)
    fail<InputError>("{}: expected version 1 to 3 of NumPy's format, found {}", name, byte(6));
  const std::uint64_t text_begin = is_first ? 10 : 12;
  const std::uint64_t text_size = byte(8) | byte(9) << 8 | (is_first ? 0 : byte(10) << 16 | byte(11) << 24);
  if (text_size > max_header_bytes || text_begin + text_size > size)
    fail<InputError>("{}: its header claims {} bytes, but the file has {}", name, text_size, size);
  std::string text(text_size, ' ');
  file_.read_at(text_begin, std::as_writable_bytes(std::span(text)));
  const std::optional<NpyHeader> header = NpyHeaderReader(text).read();
  if (!header) fail<InputError>("{}: its header cannot be read: {}", name, in_quotes(text));
  if (header->type != f32_name)
    fail<InputError>("{}: expected elements '{}' (f32), found {}: convert it with .astype('{}')", name, f32_name,
                     in_quotes(header->type), f32_name);
  if (header->shape.size() != 2)
    fail<InputError>("{}: expected a matrix [rows, features], found the shape ({})", name,
                     fmt::join(header->shape, ", "));
  if (header->is_fortran)
    fail<InputError>("{}: expected rows in C order, found Fortran order: convert it with numpy.ascontiguousarray",
                     name);
  rows_ = header->shape[0];
  columns_ = header->shape[1];
  if (rows_ == 0 || columns_ == 0) fail<InputError>("{}: its shape ({}, {}) has no elements", name, rows_, columns_);
  data_ = text_begin + text_size;
  const std::uint64_t numbers = (size - data_) / sizeof(float);
  if ((size - data_) % sizeof(float) != 0 || numbers % static_cast<std::uint64_t>(columns_) != 0 ||
      numbers / static_cast<std::uint64_t>(columns_) != static_cast<std::uint64_t>(rows_))
    fail<InputError>("{}: its shape ({}, {}) does not fit the {} bytes that follow its header", name, rows_, columns_,
                     size - data_);
}

void NpyReader::read(std::int64_t first, std::span<float> values) const {
  file_.read_at(data_ + static_cast<std::uint64_t>(first * columns_) * sizeof(float), std::as_writable_bytes(values));
}

}  // namespace heddle
