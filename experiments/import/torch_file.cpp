#include "experiments/import/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/ranges.h>

#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::string_view pickle_member = "/data.pkl";
// The most bytes of a member that describes the tensors: the pickle of a state dict has some hundred for each tensor.
constexpr std::uint64_t max_description_bytes = std::uint64_t{64} << 20;

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<StorageType, 8> storage_types{{{"DoubleStorage", DType::f64},
                                                    {"FloatStorage", DType::f32},
                                                    {"HalfStorage", DType::f16},
                                                    {"BFloat16Storage", DType::bf16},
                                                    {"LongStorage", DType::i64},
                                                    {"IntStorage", DType::i32},
                                                    {"ByteStorage", DType::u8},
                                                    {"CharStorage", DType::i8}}};

/// A dictionary of a pickle: its keys, each followed by its value.
using Items = std::span<const PickleValue>;

std::int64_t tensors_of(Items items) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i].kind == PickleKind::text && items[i + 1].kind == PickleKind::tensor) ++count;
  return count;
}

bool is_empty(const PickledTensor& tensor) {
  return std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
}

/// Whether a tensor has more elements than its storage.
bool repeats_elements(const PickledTensor& tensor) {
  if (is_empty(tensor)) return false;
  std::int64_t left = tensor.storage.elements;
  for (const std::int64_t size : tensor.shape) left /= size;
  return left < 1;
}

/// Whether all elements lie within the storage.
bool lies_within(const PickledTensor& tensor) {
  if (is_empty(tensor)) return true;
  std::int64_t left = tensor.storage.elements;
  if (tensor.offset >= left) return false;
  left -= tensor.offset + 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::int64_t steps = tensor.shape[d] - 1;
    if (steps > 0 && tensor.strides[d] > left / steps) return false;
    left -= steps * tensor.strides[d];
  }
  return true;
}

/// Copies the elements of a tensor in row-major order, dimension by dimension.
class Gather {
 public:
  Gather(const PickledTensor& tensor, std::span<const std::byte> storage, std::size_t element)
      : tensor_(tensor), storage_(storage), element_(element) {}

  void append(std::size_t dimension, std::int64_t at, std::vector<std::byte>& into) const {
    if (dimension == tensor_.shape.size()) {
      const auto place = storage_.subspan(static_cast<std::size_t>(at) * element_, element_);
      into.insert(into.end(), place.begin(), place.end());
      return;
    }
    for (std::int64_t i = 0; i < tensor_.shape[dimension]; ++i)
      append(dimension + 1, at + i * tensor_.strides[dimension], into);
  }

 private:
  const PickledTensor& tensor_;
  std::span<const std::byte> storage_;
  std::size_t element_;
};

bool is_contiguous(const PickledTensor& tensor) {
  std::int64_t stride = 1;
  for (std::size_t d = tensor.shape.size(); d > 0; --d) {
    if (tensor.shape[d - 1] != 1 && tensor.strides[d - 1] != stride) return false;
    stride *= tensor.shape[d - 1];
  }
  return true;
}

}  // namespace

TorchFile::TorchFile(const std::filesystem::path& file, const std::string& key) : zip_(file) {
  const ZipFile::Member* const pickle = zip_.find(pickle_member);
  if (pickle == nullptr)
    fail<InputError>("{}: is a zip file, but not one of torch.save: it has no member data.pkl", path());
  folder_ = pickle->name.substr(0, pickle->name.size() - pickle_member.size() + 1);
  if (const ZipFile::Member* const order = zip_.member(folder_ + "byteorder"); order != nullptr) {
    const std::vector<std::byte> text = zip_.read(*order, max_description_bytes);
    const std::string_view word(reinterpret_cast<const char*>(text.data()), text.size());
    if (word != "little") fail<InputError>("{}: expected little-endian elements, got {}", path(), in_quotes(word));
  }
  bytes_ = zip_.read(*pickle, max_description_bytes);
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes_.data());
  pickle_.emplace(std::span(begin, bytes_.size()), path() + ", data.pkl", PickleContent::tensors);
  add_tensors(state_dict(key));
}

std::string TorchFile::text_of(const PickleValue& value) const {
  const std::span<const std::uint8_t> bytes = pickle_->bytes(value);
  return {bytes.begin(), bytes.end()};
}

PickleValue TorchFile::state_dict(const std::string& key) {
  const PickleValue root = pickle_->root();
  if (root.kind != PickleKind::dictionary)
    fail<InputError>("{}: expected a state dict, got {}", path(), name_of(root.kind));
  const Items items = pickle_->items(root);
  std::vector<std::pair<std::string, PickleValue>> found;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind != PickleKind::text || items[i + 1].kind != PickleKind::dictionary) continue;
    const Items inner = pickle_->items(items[i + 1]);
    // With other values among them, such as the extra state of a module. What an optimizer keeps lies deeper.
    if (tensors_of(inner) > 0) found.emplace_back(text_of(items[i]), items[i + 1]);
  }
  // A checkpoint may have tensors beside its state dict, such as the best accuracy.
  const auto has_more = [&, own = tensors_of(items)](const auto& inner) {
    return tensors_of(pickle_->items(inner.second)) > own;
  };
  if (key.empty() && tensors_of(items) > 0 && std::none_of(found.begin(), found.end(), has_more)) {
    description_ = "a state dict of torch.save";
    return root;
  }
  std::vector<std::string> names;
  for (const auto& [name, dictionary] : found) {
    names.push_back(
        fmt::format("{} ({})", in_quotes(name), counted(tensors_of(pickle_->items(dictionary)), "tensor", "tensors")));
    if (name != key && (!key.empty() || found.size() > 1)) continue;
    description_ = fmt::format("the state dict {} of torch.save", in_quotes(name));
    return dictionary;
  }
  if (names.empty()) fail<InputError>("{}: has no dictionary of tensors", path());
  if (!key.empty())
    fail<InputError>("{}: has no state dict {}: it has {}", path(), in_quotes(key), fmt::join(names, ", "));
  fail<InputError>("{}: has several state dicts, {}: choose one with --key", path(), fmt::join(names, ", "));
}

void TorchFile::add_tensors(const PickleValue& dictionary) {
  const Items items = pickle_->items(dictionary);
  std::int64_t others = 0;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == PickleKind::text && items[i + 1].kind == PickleKind::tensor)
      add(text_of(items[i]), pickle_->tensor(items[i + 1]));
    else
      ++others;
  }
  if (others > 0)
    description_ += fmt::format(" without its {}", counted(others, "value that is no tensor", "values that are none"));
}

void TorchFile::add(const std::string& name, const PickledTensor& tensor) {
  const auto* const type = std::find_if(storage_types.begin(), storage_types.end(),
                                        [&](const StorageType& row) { return row.name == tensor.storage.type; });
  if (type == storage_types.end())
    fail<InputError>("{}: tensor {} is of type {}, which safetensors files of Heddle do not have", path(),
                     in_quotes(name), tensor.storage.type);
  if (!lies_within(tensor))
    fail<InputError>("{}: tensor {} of shape [{}] does not lie within its storage of {} elements", path(),
                     in_quotes(name), fmt::join(tensor.shape, ","), tensor.storage.elements);
  if (repeats_elements(tensor))
    fail<InputError>("{}: tensor {} repeats elements of its storage (expand): save its clone()", path(),
                     in_quotes(name));
  entries_.push_back({name, type->dtype, Shape(tensor.shape)});
  tensors_.push_back(tensor);
}

std::vector<std::byte> TorchFile::read(std::size_t index) const {
  const PickledTensor& tensor = tensors_[index];
  const SafetensorsEntry& entry = entries_[index];
  if (entry.bytes() == 0) return {};
  const std::size_t element = size_of(entry.dtype);
  const std::string name = fmt::format("{}data/{}", folder_, tensor.storage.key);
  const ZipFile::Member* const member = zip_.member(name);
  if (member == nullptr)
    fail<InputError>("{}: has no member {}, where tensor {} lies", path(), in_quotes(name), in_quotes(entry.name));
  if (member->size / element < static_cast<std::uint64_t>(tensor.storage.elements))
    fail<InputError>("{}: member {} has {} bytes: too few for the {} elements of tensor {}", path(), in_quotes(name),
                     member->size, tensor.storage.elements, in_quotes(entry.name));
  const std::vector<std::byte> storage =
      zip_.read(*member, static_cast<std::uint64_t>(tensor.storage.elements) * element);
  std::vector<std::byte> bytes;
  bytes.reserve(entry.bytes());
  if (is_contiguous(tensor)) {
    const auto begin = storage.begin() + tensor.offset * static_cast<std::ptrdiff_t>(element);
    bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(entry.bytes()));
  } else {
    Gather(tensor, storage, element).append(0, tensor.offset, bytes);
  }
  return bytes;
}

}  // namespace heddle
