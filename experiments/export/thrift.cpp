#include "experiments/export/thrift.h"

#include "framework/error.h"

namespace heddle {

void append_varint(std::string& bytes, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  bytes += static_cast<char>(number);
}

void ThriftWriter::i32(int field, std::int32_t value) {
  begin_field(field, Type::i32);
  append_number(value);
}

void ThriftWriter::i64(int field, std::int64_t value) {
  begin_field(field, Type::i64);
  append_number(value);
}

void ThriftWriter::text(int field, std::string_view value) {
  begin_field(field, Type::text);
  append_text(value);
}

void ThriftWriter::list_of_i32(int field, std::initializer_list<std::int32_t> values) {
  begin_list(field, Type::i32, values.size());
  for (const std::int32_t value : values) append_number(value);
}

void ThriftWriter::list_of_texts(int field, std::initializer_list<std::string_view> values) {
  begin_list(field, Type::text, values.size());
  for (const std::string_view value : values) append_text(value);
}

std::string ThriftWriter::finish() {
  bytes_ += end_of_struct;
  return std::move(bytes_);
}

void ThriftWriter::begin_field(int field, Type type) {
  const int step = field - last_field_;
  if (step < 1 || step > 15) fail("a thrift struct: field {} cannot follow field {}", field, last_field_);
  bytes_ += static_cast<char>(step << 4 | static_cast<int>(type));
  last_field_ = field;
}

void ThriftWriter::begin_list(int field, Type type, std::size_t size) {
  constexpr std::size_t max_short_size = 14;
  begin_field(field, Type::list);
  const bool is_short = size <= max_short_size;
  bytes_ += static_cast<char>((is_short ? size : max_short_size + 1) << 4 | static_cast<std::size_t>(type));
  if (!is_short) append_varint(bytes_, size);
}

/// Zigzag: numbers of small magnitude are short, whatever their sign.
void ThriftWriter::append_number(std::int64_t value) {
  append_varint(bytes_, static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
}

void ThriftWriter::append_text(std::string_view value) {
  append_varint(bytes_, value.size());
  bytes_ += value;
}

}  // namespace heddle
