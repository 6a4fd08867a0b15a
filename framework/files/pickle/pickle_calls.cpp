#include "framework/files/pickle/pickle_calls.h"

#include <algorithm>
#include <limits>
#include <string>

#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/tensors/shape.h"

namespace heddle {

namespace {

using Items = std::span<const PickleValue>;

struct PickledFunction {
  std::string_view module;
  std::string_view name;
  PickleValue (*call)(PickleStore&, Items);  // null: may only be an argument
  PickleContent content = PickleContent::images;
};

std::string_view as_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A name, which is a text of Python 3 or a string of Python 2.
std::string_view word(const PickleStore& store, const PickleValue& value) {
  if (value.kind != PickleKind::text && value.kind != PickleKind::bytes)
    fail<InputError>("expected a name, got {}", name_of(value.kind));
  return as_text(store.pickle().bytes(value));
}

void expect_arguments(Items arguments, std::size_t least, std::size_t most) {
  if (arguments.size() < least || arguments.size() > most)
    fail<InputError>("expected {} to {} arguments, got {}", least, most, arguments.size());
}

const PickleValue& expect(const PickleValue& value, PickleKind kind) {
  if (value.kind != kind) fail<InputError>("expected {}, got {}", name_of(kind), name_of(value.kind));
  return value;
}

/// Python 3 writes bytes as text in protocols 0 to 2: each byte is the character of that number.
PickleValue encode_latin1(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 2, 2);
  const std::span<const std::uint8_t> text = store.pickle().bytes(expect(arguments[0], PickleKind::text));
  const std::string_view encoding = word(store, arguments[1]);
  if (encoding != "latin1" && encoding != "latin-1")
    fail<InputError>("expected the encoding latin1, got {}", in_quotes(encoding));
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < 0x80) {
      bytes.push_back(text[i]);
    } else if ((text[i] == 0xC2 || text[i] == 0xC3) && i + 1 < text.size() && (text[i + 1] & 0xC0) == 0x80) {
      bytes.push_back(static_cast<std::uint8_t>((text[i] << 6) | (text[i + 1] & 0x3F)));
      ++i;
    } else {
      fail<InputError>("the character at byte {} of a text is not in latin1", i);
    }
  }
  return store.add_decoded(PickleKind::bytes, std::move(bytes));
}

/// bytes(), bytearray(), bytearray(bytes), bytearray(text, encoding).
PickleValue make_bytes(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 0, 2);
  if (arguments.empty()) return store.add_string(PickleKind::bytes, {});
  return arguments.size() == 1 ? expect(arguments[0], PickleKind::bytes) : encode_latin1(store, arguments);
}

/// _reconstruct(ndarray, (0,), b'b'): an array that a BUILD fills.
PickleValue make_array(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 3, 3);
  expect(arguments[0], PickleKind::function);
  return store.add_array({});
}

/// dtype('u1', False, True).
PickleValue make_type(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 1, 3);
  std::string_view name = word(store, arguments[0]);
  if (name.starts_with('|') || name.starts_with('<')) name.remove_prefix(1);
  const auto* const found = std::find_if(pickled_types.begin(), pickled_types.end(),
                                         [&](const PickledType& type) { return type.name == name; });
  if (found == pickled_types.end())
    fail<InputError>("expected an array of integers, got one of type {}", in_quotes(name));
  return {PickleKind::type, found - pickled_types.begin()};
}

const PickledType& type_of(const PickleValue& value) {
  return pickled_types[static_cast<std::size_t>(expect(value, PickleKind::type).number)];
}

PickledArray array_of(const PickleStore& store, const PickleValue& type, const PickleValue& shape,
                      const PickleValue& bytes) {
  constexpr std::size_t max_axes = 32;
  PickledArray array{.type = type_of(type), .shape = {}, .bytes = {}};
  array.bytes = store.pickle().bytes(expect(bytes, PickleKind::bytes));
  const Items axes = store.pickle().items(expect(shape, PickleKind::tuple));
  if (axes.size() > max_axes) fail<InputError>("expected at most {} axes, got {}", max_axes, axes.size());
  std::uint64_t elements = 1;
  for (const PickleValue& axis : axes) {
    const std::int64_t size = expect(axis, PickleKind::integer).number;
    if (size < 0 || (size > 0 && elements > array.bytes.size() / static_cast<std::uint64_t>(size)))
      fail<InputError>("an array has {} bytes, but an axis of {}", array.bytes.size(), size);
    elements *= static_cast<std::uint64_t>(size);
    array.shape.push_back(size);
  }
  if (elements * array.type.bytes != array.bytes.size())
    fail<InputError>("an array of {} elements of type {} has {} bytes", elements, array.type.name, array.bytes.size());
  return array;
}

/// _frombuffer(bytes, dtype, shape, 'C'), of protocol 5.
PickleValue array_from_buffer(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 4, 4);
  PickledArray array = array_of(store, arguments[1], arguments[2], arguments[0]);
  if (word(store, arguments[3]) != "C" && array.shape.size() > 1)
    fail<InputError>("expected an array in C order, got Fortran order");
  return store.add_array(std::move(array));
}

/// scalar(dtype, bytes): one element, such as numpy.bool_.
PickleValue make_scalar(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 2, 2);
  const PickledType& type = type_of(arguments[0]);
  const std::span<const std::uint8_t> bytes = store.pickle().bytes(expect(arguments[1], PickleKind::bytes));
  if (bytes.size() != type.bytes) fail<InputError>("an element of type {} has {} bytes", type.name, bytes.size());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  if (type.name == "b1") return {PickleKind::boolean, value != 0 ? 1 : 0};
  if (type.name.starts_with('i') && type.bytes < 8 && (value >> (8 * type.bytes - 1)) != 0)
    value |= ~std::uint64_t{0} << (8 * type.bytes);
  return {PickleKind::integer, static_cast<std::int64_t>(value)};
}

PickleValue make_dictionary(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 0, 0);
  return store.add_sequence(PickleKind::dictionary, {});
}

std::vector<std::int64_t> counts(const PickleStore& store, const PickleValue& value) {
  std::vector<std::int64_t> all;
  const Items items = store.pickle().items(expect(value, PickleKind::tuple));
  if (items.size() > Shape::max_rank)
    fail<InputError>("a tensor has {} dimensions, more than {}", items.size(), Shape::max_rank);
  for (const PickleValue& item : items) {
    all.push_back(expect(item, PickleKind::integer).number);
    if (all.back() < 0) fail<InputError>("a size or a stride of a tensor is {}", all.back());
  }
  return all;
}

/// _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks).
PickleValue make_tensor(PickleStore& store, Items arguments) {
  expect_arguments(arguments, 4, 7);
  PickledTensor tensor{.storage = store.storage(expect(arguments[0], PickleKind::storage)),
                       .offset = expect(arguments[1], PickleKind::integer).number,
                       .shape = counts(store, arguments[2]),
                       .strides = counts(store, arguments[3])};
  if (tensor.offset < 0) fail<InputError>("the offset of a tensor is {}", tensor.offset);
  if (tensor.shape.size() != tensor.strides.size())
    fail<InputError>("a tensor has {} sizes, but {} strides", tensor.shape.size(), tensor.strides.size());
  return store.add_tensor(std::move(tensor));
}

/// _rebuild_parameter(tensor, requires_grad, hooks).
PickleValue make_parameter_tensor(PickleStore& /*store*/, Items arguments) {
  expect_arguments(arguments, 3, 3);
  return expect(arguments[0], PickleKind::tensor);
}

constexpr PickleContent tensors = PickleContent::tensors;

/// Python 2 and 3, and NumPy 1 and 2, name some functions differently.
constexpr std::array<PickledFunction, 25> functions{{
    {"_codecs", "encode", encode_latin1},
    {"__builtin__", "bytes", make_bytes},
    {"builtins", "bytes", make_bytes},
    {"__builtin__", "bytearray", make_bytes},
    {"builtins", "bytearray", make_bytes},
    {"numpy", "dtype", make_type},
    {"numpy", "ndarray", nullptr},
    {"numpy.core.multiarray", "_reconstruct", make_array},
    {"numpy._core.multiarray", "_reconstruct", make_array},
    {"numpy.core.multiarray", "scalar", make_scalar},
    {"numpy._core.multiarray", "scalar", make_scalar},
    {"numpy.core.numeric", "_frombuffer", array_from_buffer},
    {"numpy._core.numeric", "_frombuffer", array_from_buffer},
    {"collections", "OrderedDict", make_dictionary, tensors},
    {"torch._utils", "_rebuild_tensor_v2", make_tensor, tensors},
    {"torch._utils", "_rebuild_parameter", make_parameter_tensor, tensors},
    {"torch", "FloatStorage", nullptr, tensors},
    {"torch", "DoubleStorage", nullptr, tensors},
    {"torch", "HalfStorage", nullptr, tensors},
    {"torch", "BFloat16Storage", nullptr, tensors},
    {"torch", "LongStorage", nullptr, tensors},
    {"torch", "IntStorage", nullptr, tensors},
    {"torch", "ByteStorage", nullptr, tensors},
    {"torch", "CharStorage", nullptr, tensors},
    {"torch", "BoolStorage", nullptr, tensors},
}};

/// Checks (version, byte order, None, None, None, ...): the type has neither parts nor fields.
void check_type_state(const PickleStore& store, Items state) {
  expect_arguments(state, 5, 9);
  const std::string_view order = word(store, state[1]);
  if (order != "|" && order != "<") fail<InputError>("expected little-endian elements, got {}", in_quotes(order));
  for (const std::size_t part : {2, 3, 4}) expect(state[part], PickleKind::none);
}

}  // namespace

PickleValue PickleStore::add_sequence(PickleKind kind, std::vector<PickleValue> items) {
  pickle_.sequences_.push_back(std::move(items));
  return {kind, static_cast<std::int64_t>(pickle_.sequences_.size()) - 1};
}

PickleValue PickleStore::add_string(PickleKind kind, std::span<const std::uint8_t> bytes) {
  pickle_.strings_.push_back(bytes);
  return {kind, static_cast<std::int64_t>(pickle_.strings_.size()) - 1};
}

PickleValue PickleStore::add_decoded(PickleKind kind, std::vector<std::uint8_t> bytes) {
  decoded_ += bytes.size();
  if (decoded_ > max_decoded_)
    fail<InputError>("strings take {} bytes, more than four times the size of the file", decoded_);
  pickle_.decoded_.push_back(std::move(bytes));
  return add_string(kind, pickle_.decoded_.back());
}

PickleValue PickleStore::add_array(PickledArray array) {
  pickle_.arrays_.push_back(std::move(array));
  return {PickleKind::array, static_cast<std::int64_t>(pickle_.arrays_.size()) - 1};
}

PickleValue PickleStore::add_storage(const PickledStorage& storage) {
  pickle_.storages_.push_back(storage);
  return {PickleKind::storage, static_cast<std::int64_t>(pickle_.storages_.size()) - 1};
}

PickleValue PickleStore::add_tensor(PickledTensor tensor) {
  pickle_.tensors_.push_back(std::move(tensor));
  return {PickleKind::tensor, static_cast<std::int64_t>(pickle_.tensors_.size()) - 1};
}

PickleValue pickled_function(const PickleStore& store, std::string_view module, std::string_view name) {
  const bool reads_images = store.content() == PickleContent::images;
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (functions[i].module == module && functions[i].name == name &&
        !(reads_images && functions[i].content == PickleContent::tensors))
      return {PickleKind::function, static_cast<std::int64_t>(i)};
  fail<InputError>("{}.{} is not a function that {} are written with", shortened(module), shortened(name),
                   reads_images ? "images and labels" : "state dicts");
}

PickleValue pickled_storage(PickleStore& store, const PickleValue& identity) {
  const Items parts = store.pickle().items(expect(identity, PickleKind::tuple));
  expect_arguments(parts, 5, 6);
  if (word(store, parts[0]) != "storage")
    fail<InputError>("expected a storage, got {}", in_quotes(word(store, parts[0])));
  const PickledFunction& type = functions[static_cast<std::size_t>(expect(parts[1], PickleKind::function).number)];
  if (type.module != "torch") fail<InputError>("expected a type of torch, got {}.{}", type.module, type.name);
  return store.add_storage(
      {.type = type.name, .key = word(store, parts[2]), .elements = expect(parts[4], PickleKind::integer).number});
}

PickleValue pickled_call(PickleStore& store, const PickleValue& function, const PickleValue& arguments) {
  const PickledFunction& callee = functions[static_cast<std::size_t>(expect(function, PickleKind::function).number)];
  const Items values = store.pickle().items(expect(arguments, PickleKind::tuple));
  if (callee.call == nullptr) fail<InputError>("{}.{} must not be called", callee.module, callee.name);
  try {
    return callee.call(store, values);
  } catch (const InputError& error) {
    fail<InputError>("{}.{}: {}", callee.module, callee.name, error.what());
  }
}

void pickled_build(PickleStore& store, const PickleValue& object, const PickleValue& state) {
  if (object.kind == PickleKind::dictionary) return;
  const Items parts = store.pickle().items(expect(state, PickleKind::tuple));
  if (object.kind == PickleKind::type) return check_type_state(store, parts);
  expect(object, PickleKind::array);
  expect_arguments(parts, 5, 5);
  PickledArray array = array_of(store, parts[2], parts[1], parts[4]);
  const PickleValue& is_fortran = parts[3];
  if (is_fortran.kind != PickleKind::integer) expect(is_fortran, PickleKind::boolean);
  if (is_fortran.number != 0 && array.shape.size() > 1)
    fail<InputError>("expected an array in C order, got Fortran order");
  store.array(object) = std::move(array);
}

}  // namespace heddle
