#include "framework/files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/files/crc32c.h"
#include "framework/files/disk_page.h"

namespace heddle {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

namespace {

constexpr std::uint64_t max_header = 100'000'000;
constexpr std::string_view metadata_key = "__metadata__";

struct DTypeRow {
  DType dtype;
  std::string_view name;
};
constexpr std::array<DTypeRow, 8> dtype_rows{{{DType::f64, "F64"},
                                              {DType::f32, "F32"},
                                              {DType::bf16, "BF16"},
                                              {DType::f16, "F16"},
                                              {DType::i64, "I64"},
                                              {DType::i32, "I32"},
                                              {DType::u8, "U8"},
                                              {DType::i8, "I8"}}};

/// A name from a file, short enough for a message.
std::string short_name(std::string_view name) {
  constexpr std::size_t max_shown = 80;
  return shortened(name, max_shown);
}

struct RawTensor {
  std::string name;
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  std::optional<std::array<std::uint64_t, 2>> offsets;
};

/// Parses the header event by event: a document tree would silently keep the last of duplicate keys, and take many
/// times the memory of the text. Every callback knows what may come next; anything else is an error.
class HeaderParser : public nlohmann::json::json_sax_t {
 public:
  explicit HeaderParser(const std::string& path) : path_(path) {}

  std::vector<RawTensor> tensors;
  SafetensorsMetadata metadata;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is not an integer below 2^64");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::list) return unexpected("a number");
    if (numbers_.size() == Shape::max_rank) fail_in_tensor("{}: has more than {} numbers", key_, numbers_.size());
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return unexpected("a string");
    const auto row = std::find_if(dtype_rows.begin(), dtype_rows.end(), [&](const auto& r) { return r.name == value; });
    if (row == dtype_rows.end())
      fail_in_tensor("unknown dtype '{}': expected F64, F32, BF16, F16, I64, I32, I8 or U8", short_name(value));
    tensors.back().dtype = row->dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::start:
        place_ = Place::top;
        return true;
      case Place::top:
        place_ = key_ == metadata_key ? Place::metadata : Place::tensor;
        break;
      default:
        return unexpected("an object");
    }
    inner_keys_.clear();
    if (place_ == Place::tensor) tensors.push_back({.name = key_, .dtype = {}, .shape = {}, .offsets = {}});
    return true;
  }

  bool key(string_t& value) override {
    if (!(place_ == Place::top ? top_keys_ : inner_keys_).insert(value).second)
      fail<InputError>("{}: key '{}' appears twice", path_, short_name(value));
    if (place_ == Place::tensor && value != "dtype" && value != "shape" && value != "data_offsets")
      fail_in_tensor("unknown key '{}': expected dtype, shape and data_offsets", short_name(value));
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      const RawTensor& tensor = tensors.back();
      if (!tensor.dtype) fail_in_tensor("dtype is missing");
      if (!tensor.shape) fail_in_tensor("shape is missing");
      if (!tensor.offsets) fail_in_tensor("data_offsets is missing");
    }
    place_ = Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") return unexpected("a list");
    place_ = Place::list;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    if (key_ == "shape") {
      tensors.back().shape = shape_of_numbers();
    } else {
      if (numbers_.size() != 2) fail_in_tensor("data_offsets: expected 2 numbers, got {}", numbers_.size());
      tensors.back().offsets = {numbers_[0], numbers_[1]};
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail<InputError>("{}: the header is not JSON at its byte {}", path_, position);
  }

 private:
  enum class Place { start, top, metadata, tensor, list };

  template <class... Args>
  [[noreturn]] void fail_in_tensor(fmt::format_string<Args...> format, Args&&... args) const {
    fail<InputError>("{}: tensor '{}': {}", path_, short_name(tensors.back().name),
                     fmt::format(format, std::forward<Args>(args)...));
  }

  [[noreturn]] bool unexpected(std::string_view what) const {
    switch (place_) {
      case Place::start:
        fail<InputError>("{}: the header: expected an object, got {}", path_, what);
      case Place::top:
        fail<InputError>("{}: '{}': expected an object, got {}", path_, short_name(key_), what);
      case Place::metadata:
        fail<InputError>("{}: {}: '{}': expected a string, got {}", path_, metadata_key, short_name(key_), what);
      case Place::tensor:
        fail_in_tensor("{}: expected {}, got {}", key_, key_ == "dtype" ? "a string" : "a list of numbers", what);
      case Place::list:
        break;
    }
    fail_in_tensor("{}: expected an integer from 0 on, got {}", key_, what);
  }

  Shape shape_of_numbers() const {
    std::array<std::int64_t, Shape::max_rank> dimensions{};
    // A dimension of 0 makes any product 0, so each size is bounded as well.
    constexpr std::uint64_t max_elements = std::uint64_t{1} << 56;
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const std::uint64_t size = numbers_[i];
      if (size > max_elements || (size > 0 && elements > max_elements / size)) fail_in_tensor("shape: is too large");
      elements *= std::max<std::uint64_t>(size, 1);
      dimensions[i] = static_cast<std::int64_t>(size);
    }
    return Shape(std::span<const std::int64_t>(dimensions.data(), numbers_.size()));
  }

  const std::string& path_;
  Place place_ = Place::start;
  std::string key_;
  std::set<std::string, std::less<>> top_keys_;
  std::set<std::string, std::less<>> inner_keys_;
  std::vector<std::uint64_t> numbers_;
};

void check_cover(const std::string& path, std::vector<RawTensor>& tensors, std::uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const RawTensor& a, const RawTensor& b) { return *a.offsets < *b.offsets; });
  std::uint64_t end_before = 0;
  for (const RawTensor& tensor : tensors) {
    const auto [begin, end] = *tensor.offsets;
    const std::string name = short_name(tensor.name);
    if (begin > end || end > data_bytes)
      fail<InputError>("{}: tensor '{}': data_offsets [{}, {}] are not within the data's {} bytes", path, name, begin,
                       end, data_bytes);
    if (begin != end_before)
      fail<InputError>("{}: tensor '{}': its data begin at {} and {} the previous data, which end at {}", path, name,
                       begin, begin < end_before ? "overlap" : "leave a gap after", end_before);
    const std::uint64_t expected = static_cast<std::uint64_t>(tensor.shape->numel()) * size_of(*tensor.dtype);
    if (end - begin != expected)
      fail<InputError>("{}: tensor '{}': {} needs {} bytes, data_offsets [{}, {}] give {}", path, name,
                       to_string(*tensor.dtype, *tensor.shape), expected, begin, end, end - begin);
    end_before = end;
  }
  if (end_before != data_bytes)
    fail<InputError>("{}: {} bytes after the last tensor belong to no tensor", path, data_bytes - end_before);
}

std::string header_text(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                        const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  std::set<std::string_view> names{metadata_key};
  std::uint64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (!names.insert(entry.name).second)
      fail<InputError>("{}: tensor name '{}' is taken", path, short_name(entry.name));
    const auto row =
        std::find_if(dtype_rows.begin(), dtype_rows.end(), [&](const auto& r) { return r.dtype == entry.dtype; });
    // push_back rather than operator[], which would search all keys before it.
    header.get_ref<nlohmann::ordered_json::object_t&>().push_back(
        {entry.name,
         {{"dtype", row->name},
          {"shape", entry.shape.dimensions()},
          {"data_offsets", {offset, offset + entry.bytes()}}}});
    offset += entry.bytes();
  }
  try {
    std::string text = header.dump();
    const std::uint64_t alignment = offset >= disk_buffer ? disk_page : sizeof(std::uint64_t);
    const std::uint64_t end = sizeof(std::uint64_t) + text.size();  // the length of the header comes first
    text.append((alignment - end % alignment) % alignment, ' ');
    return text;
  } catch (const nlohmann::json::type_error&) {
    fail<InputError>("{}: a tensor's name or the metadata are not UTF-8", path);
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path target, const std::vector<SafetensorsEntry>& entries,
                                     const SafetensorsMetadata& metadata)
    : file_(std::move(target), DiskCache::bypassed) {
  const std::string path = file_.target().string();
  const std::string header = header_text(path, entries, metadata);
  if (header.size() > max_header)
    fail<InputError>("{}: the header would have {} bytes, at most {} are allowed", path, header.size(), max_header);
  for (const SafetensorsEntry& entry : entries) missing_ += entry.bytes();
  const std::uint64_t size = header.size();
  append(std::as_bytes(std::span(&size, 1)));
  append(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  checksum_ = crc32c(bytes, checksum_);
  file_.write(bytes);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_)
    fail("{}: {} bytes more than its tensors have", file_.target().string(), bytes.size() - missing_);
  missing_ -= bytes.size();
  append(bytes);
}

void SafetensorsWriter::finish() {
  if (missing_ > 0) fail("{}: {} bytes of its tensors were not written", file_.target().string(), missing_);
  file_.finish();
}

void SafetensorsWriter::commit() {
  finish();
  file_.commit();
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : file_(FileDescriptor::open_for_reading(path)) {
  const std::string name = path.string();
  const std::uint64_t file_bytes = file_.size();
  std::uint64_t header_bytes = 0;
  if (file_bytes < sizeof header_bytes)
    fail<InputError>("{}: has {} bytes, a safetensors file has at least 8", name, file_bytes);
  file_.read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  constexpr std::uint32_t begin_of_zip = 0x04034b50;
  if (header_bytes > max_header && static_cast<std::uint32_t>(header_bytes) == begin_of_zip)
    fail<InputError>("{}: is a zip file, not a safetensors file; `heddle import` converts those of torch.save", name);
  if (header_bytes > max_header)
    fail<InputError>("{}: is not a safetensors file: it would have a header of {} bytes, and at most {} are allowed",
                     name, header_bytes, max_header);
  if (header_bytes > file_bytes - sizeof header_bytes)
    fail<InputError>("{}: the header's length is {}, only {} bytes follow", name, header_bytes,
                     file_bytes - sizeof header_bytes);
  std::string header(header_bytes, '\0');
  file_.read_at(sizeof header_bytes, std::as_writable_bytes(std::span(header)));
  // The library would accept white space and a byte order mark here.
  if (!header.starts_with('{')) fail<InputError>("{}: the header does not begin with '{{'", name);

  HeaderParser parser(name);
  nlohmann::json::sax_parse(header, &parser);
  const std::uint64_t data_begin = sizeof header_bytes + header_bytes;
  check_cover(name, parser.tensors, file_bytes - data_begin);
  metadata_ = std::move(parser.metadata);
  for (RawTensor& tensor : parser.tensors) {
    by_name_.emplace(tensor.name, entries_.size());
    positions_.push_back(data_begin + (*tensor.offsets)[0]);
    entries_.push_back({std::move(tensor.name), *tensor.dtype, *tensor.shape});
  }
}

std::size_t SafetensorsReader::index_of(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) fail<InputError>("{}: has no tensor '{}'", path().string(), short_name(name));
  return found->second;
}

void SafetensorsReader::read(std::size_t index, std::span<std::byte> bytes, std::uint64_t offset) const {
  const SafetensorsEntry& entry = entries_.at(index);
  if (offset > entry.bytes() || bytes.size() > entry.bytes() - offset)
    fail("{}: tensor '{}': bytes {} to {} of {}", path().string(), short_name(entry.name), offset,
         offset + bytes.size(), entry.bytes());
  file_.read_at(positions_[index] + offset, bytes);
}

}  // namespace heddle
