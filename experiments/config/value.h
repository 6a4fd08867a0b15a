// A JSON value that remembers where it came from, so that an error in a merged experiment still points to its cause.
// Internal to experiments/config: others read structs, not values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace heddle {

struct Value;
struct Member;
using Array = std::vector<Value>;
using Object = std::vector<Member>;  // members in the file's order

/// A number that is written with a fraction or an exponent, or that no 64-bit integer holds; `text` is as written.
struct Real {
  double value = 0;
  std::string text;
};

/// The trace of a patch's null: the key is absent, but must still be a known one.
struct Removed {};

struct Value {
  std::variant<std::nullptr_t, bool, std::int64_t, Real, std::string, Array, Object, Removed> data;
  std::uint32_t origin = 0;  ///< index into Source's origins
  std::uint32_t order = 0;   ///< position within the file

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&data);
  }
  template <class T>
  T* get_if() {
    return std::get_if<T>(&data);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data);
  }
};

struct Member {
  std::string key;
  Value value;
};

/// The member of an object by its key; null if there is none.
inline const Value* find(const Object& object, std::string_view key) {
  for (const Member& member : object) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}
inline Value* find(Object& object, std::string_view key) {
  return const_cast<Value*>(find(std::as_const(object), key));
}

/// A JSON pointer (RFC 6901) to a member or an element of what `pointer` points to.
std::string child_pointer(std::string_view pointer, std::string_view key);
std::string child_pointer(std::string_view pointer, std::size_t index);
/// The value to which a JSON pointer within `root` points; null if there is none.
const Value* value_at(const Value& root, std::string_view pointer);

}  // namespace heddle
