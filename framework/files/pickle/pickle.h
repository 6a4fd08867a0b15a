// Reads Python pickles without executing anything. An interpreter of our own knows the operations of protocols 0 to 5
// that make numbers, strings, bytes, lists, tuples and NumPy arrays, or also dictionaries and PyTorch's tensors, and
// refuses all others. Whatever a file claims, the memory that is used stays below a small multiple of its size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

enum class PickleKind {
  none,
  boolean,
  integer,
  text,
  bytes,
  list,
  tuple,
  function,
  type,
  array,
  real,
  dictionary,
  storage,
  tensor
};

/// What a pickle may be made of: the images and labels of a verification set, or also what a state dict of PyTorch is.
enum class PickleContent { images, tensors };

/// A value: `number` is the value of a boolean or an integer, the bits of a real number, and otherwise the index of a
/// value that the pickle holds.
struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::int64_t number = 0;
};

/// The type of a NumPy array's elements.
struct PickledType {
  std::string_view name;
  std::size_t bytes = 0;
};
inline constexpr std::array<PickledType, 9> pickled_types{{
    {"u1", 1},
    {"b1", 1},
    {"i1", 1},
    {"i2", 2},
    {"u2", 2},
    {"i4", 4},
    {"u4", 4},
    {"i8", 8},
    {"u8", 8},
}};

/// A NumPy array. Its elements are little-endian and in C order; there are as many as its shape says.
struct PickledArray {
  PickledType type{};  // without a name until the pickle has given the array its elements
  std::vector<std::int64_t> shape;
  std::span<const std::uint8_t> bytes;
};

/// The elements of PyTorch's tensors, which lie outside the pickle under `key`.
struct PickledStorage {
  std::string_view type;  // of the elements, in PyTorch: `FloatStorage`
  std::string_view key;
  std::int64_t elements = 0;
};

/// A tensor of PyTorch: element [i, j] is the element offset + i * strides[0] + j * strides[1] of its storage. Offset,
/// sizes and strides are not negative.
struct PickledTensor {
  PickledStorage storage;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

class Pickle {
 public:
  /// Reads a pickle, which must outlive this object. InputError begins with `name` and says which operation is wrong,
  /// at which byte, and why.
  Pickle(std::span<const std::uint8_t> file, const std::string& name, PickleContent content = PickleContent::images);

  const PickleValue& root() const { return root_; }
  /// The elements of a list or a tuple, or a dictionary's keys, each followed by its value. A list may contain itself.
  std::span<const PickleValue> items(const PickleValue& value) const { return sequences_.at(index_of(value)); }
  /// The bytes of a text (in UTF-8) or of bytes.
  std::span<const std::uint8_t> bytes(const PickleValue& value) const { return strings_.at(index_of(value)); }
  const PickledArray& array(const PickleValue& value) const { return arrays_.at(index_of(value)); }
  const PickledTensor& tensor(const PickleValue& value) const { return tensors_.at(index_of(value)); }

 private:
  friend class PickleStore;
  static std::size_t index_of(const PickleValue& value) { return static_cast<std::size_t>(value.number); }

  std::vector<std::vector<PickleValue>> sequences_;
  std::vector<std::span<const std::uint8_t>> strings_;  // in the file, or in `decoded_`
  std::vector<PickledArray> arrays_;
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
  std::deque<std::vector<std::uint8_t>> decoded_;  // strings that were escaped in the file
  PickleValue root_;
};

/// The name of a kind in messages, such as `a list` or `bytes`.
std::string_view name_of(PickleKind kind);

}  // namespace heddle
