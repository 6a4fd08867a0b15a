// Thrift's compact protocol, in which Parquet writes its metadata: numbers as varints, structs as fields that say how
// far their number is from that of the field before.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace heddle {

/// Seven bits per byte, the lowest first; the eighth bit says that another byte follows.
void append_varint(std::string& bytes, std::uint64_t number);

/// Writes one struct. Its fields must come in the order of their numbers.
class ThriftWriter {
 public:
  void i32(int field, std::int32_t value);
  void i64(int field, std::int64_t value);
  void text(int field, std::string_view value);
  void list_of_i32(int field, std::initializer_list<std::int32_t> values);
  void list_of_texts(int field, std::initializer_list<std::string_view> values);
  /// `write` writes the fields of the struct.
  template <class Write>
  void structure(int field, const Write& write) {
    begin_field(field, Type::structure);
    nested(write);
  }
  /// `write(i)` writes the fields of the i-th struct.
  template <class Write>
  void list_of_structures(int field, std::size_t size, const Write& write) {
    begin_list(field, Type::structure, size);
    for (std::size_t i = 0; i < size; ++i) nested([&] { write(i); });
  }
  /// Ends the struct and returns its bytes.
  std::string finish();

 private:
  enum class Type : std::uint8_t { i32 = 5, i64 = 6, text = 8, list = 9, structure = 12 };

  template <class Write>
  void nested(const Write& write) {
    const int field = last_field_;
    last_field_ = 0;
    write();
    bytes_ += end_of_struct;
    last_field_ = field;
  }
  void begin_field(int field, Type type);
  void begin_list(int field, Type type, std::size_t size);
  void append_number(std::int64_t value);
  void append_text(std::string_view value);

  static constexpr char end_of_struct = 0;
  std::string bytes_;
  int last_field_ = 0;
};

}  // namespace heddle
