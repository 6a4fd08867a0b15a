#include "experiments/training/checkpoints/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include <fmt/ranges.h>

#include "framework/description/printable.h"
#include "framework/files/crc32c.h"
#include "framework/tensors/host_elements.h"

namespace heddle {

namespace {

constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;
constexpr std::string_view part_prefix = "part of ";
constexpr std::string_view size_key = "ranks";

std::filesystem::path rank_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.safetensors", rank);
}

std::filesystem::path checksum_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.crc32c", rank);
}

std::string checksum_text(std::uint32_t checksum) {
  return fmt::format("{:08x}\n", checksum);
}

std::string part_text(const ParameterPart& part) {
  std::vector<std::int64_t> begins;
  for (const IndexRange& range : part.box) begins.push_back(range.begin);
  std::string text =
      fmt::format("{} at [{}] size {}", to_string(part.whole), fmt::join(begins, ","), to_string(part.shape()));
  if (part.elements) text += fmt::format(" elements [{},{}]", part.elements->begin, part.elements->size);
  return text;
}

/// Takes what it expects from the front of a text that may hold anything.
class PartText {
 public:
  explicit PartText(std::string_view text) : rest_(text) {}

  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  /// `[2,3]`, of numbers from 0 to 2^63 - 1, at most as many as a shape has.
  std::optional<std::vector<std::int64_t>> take_list() {
    if (!take("[")) return {};
    std::vector<std::int64_t> numbers;
    if (take("]")) return numbers;
    do {
      std::int64_t number = 0;
      const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
      if (result.ec != std::errc{} || number < 0 || numbers.size() == Shape::max_rank) return {};
      numbers.push_back(number);
      rest_.remove_prefix(static_cast<std::size_t>(result.ptr - rest_.data()));
    } while (take(","));
    if (!take("]")) return {};
    return numbers;
  }

  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool lies_within(const IndexRange& range, std::int64_t size) {
  return range.begin <= size && range.size <= size - range.begin;
}

/// None if the text is not one of `part_text`, or says what cannot be.
std::optional<ParameterPart> part_of_text(std::string_view text) {
  PartText rest(text);
  const auto whole = rest.take_list();
  if (!whole || !rest.take(" at ")) return {};
  const auto begins = rest.take_list();
  if (!begins || !rest.take(" size ")) return {};
  const auto sizes = rest.take_list();
  if (!sizes || begins->size() != whole->size() || sizes->size() != whole->size()) return {};
  std::int64_t most = Shape::max_elements;  // so that no product of sizes is too large
  for (const std::int64_t size : *whole) most = size > 0 ? most / size : most;
  if (most == 0) return {};
  ParameterPart part{.whole = Shape(*whole), .box = {}, .sharded = {}, .partial = {}};
  for (std::size_t d = 0; d < whole->size(); ++d) {
    part.box.push_back({(*begins)[d], (*sizes)[d]});
    if (!lies_within(part.box[d], (*whole)[d])) return {};
  }
  if (rest.take(" elements ")) {
    const auto elements = rest.take_list();
    if (!elements || elements->size() != 2) return {};
    part.elements = IndexRange{(*elements)[0], (*elements)[1]};
    if (!lies_within(*part.elements, part.shape().numel())) return {};
  }
  return rest.at_end() ? std::optional(part) : std::nullopt;
}

/// Splits a tensor into pieces of a size for a host buffer: f(first element, number of elements).
template <class F>
void for_each_piece(std::int64_t elements, DType dtype, F&& f) {
  const std::int64_t step = piece_bytes / static_cast<std::int64_t>(size_of(dtype));
  for (std::int64_t begin = 0; begin < elements; begin += step) f(begin, std::min(step, elements - begin));
}

/// Collects neighbouring elements of a tensor in a host buffer and puts them there together.
class PiecewiseLoad {
 public:
  PiecewiseLoad(const Tensor& tensor, std::vector<std::byte>& buffer)
      : flat_(tensor.reshape({tensor.numel()})), buffer_(buffer), element_(size_of(tensor.dtype())) {}

  /// Elements begin .. begin + count - 1: read(place, first of them) fills a place.
  template <class Read>
  void add(std::int64_t begin, std::int64_t count, Read&& read) {
    const std::int64_t most = piece_bytes / static_cast<std::int64_t>(element_);
    for (std::int64_t done = 0; done < count;) {
      if (begin + done != begin_ + filled_ || filled_ == most) flush();
      if (filled_ == 0) begin_ = begin + done;
      const std::int64_t taken = std::min(count - done, most - filled_);
      buffer_.resize(std::max(buffer_.size(), bytes(filled_ + taken)));
      read(std::span(buffer_).subspan(bytes(filled_), bytes(taken)), done);
      filled_ += taken;
      done += taken;
    }
  }

  void flush() {
    if (filled_ > 0) flat_.rows(begin_, begin_ + filled_).load_bytes(std::span(buffer_).first(bytes(filled_)));
    filled_ = 0;
  }

 private:
  std::size_t bytes(std::int64_t elements) const { return static_cast<std::size_t>(elements) * element_; }

  Tensor flat_;
  std::vector<std::byte>& buffer_;
  std::size_t element_;
  std::int64_t begin_ = 0;
  std::int64_t filled_ = 0;
};

/// The number of ranks that saved, as their files say.
int size_of_identity(const std::filesystem::path& path, const SafetensorsMetadata& identity) {
  const auto found = identity.find(std::string(size_key));
  const std::string text = found == identity.end() ? "" : found->second;
  int size = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), size);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size() || size < 1)
    fail<InputError>("{}: does not state how many ranks saved the checkpoint: '{}'", path.string(), shortened(text));
  return size;
}

}  // namespace

RankFileHeader header_of(const std::vector<StateTensor>& tensors, SafetensorsMetadata identity) {
  RankFileHeader header{.entries = {}, .metadata = std::move(identity)};
  for (const StateTensor& tensor : tensors) {
    header.entries.push_back({tensor.name, tensor.value.dtype(), tensor.value.shape()});
    header.metadata.emplace(std::string(part_prefix) + tensor.name, part_text(tensor.part));
  }
  return header;
}

void write_rank_file(const std::filesystem::path& folder, int rank, const RankFileHeader& header,
                     const std::function<void(SafetensorsWriter&)>& write_elements) {
  SafetensorsWriter writer(rank_file(folder, rank), header.entries, header.metadata);
  write_elements(writer);
  writer.commit();
  write_file_atomically(checksum_file(folder, rank), checksum_text(writer.checksum()));
}

void read_in_pieces(const std::vector<StateTensor>& tensors,
                    const std::function<void(const StateTensor&, std::span<const std::byte>)>& use) {
  std::vector<std::byte> buffer;
  for (const StateTensor& tensor : tensors) {
    const Tensor flat = tensor.value.reshape({tensor.value.numel()});
    for_each_piece(flat.numel(), flat.dtype(), [&](std::int64_t begin, std::int64_t count) {
      const Tensor piece = flat.rows(begin, begin + count);
      buffer.resize(static_cast<std::size_t>(piece.bytes()));
      piece.to_host_bytes(piece.dtype(), buffer);
      use(tensor, buffer);
    });
  }
}

CheckpointFiles::CheckpointFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  for (int file = 0; file < size_; ++file) add_file(file);
}

std::filesystem::path CheckpointFiles::path_of(int file) const {
  return rank_file(folder_, file);
}

void CheckpointFiles::add_file(int file) {
  const SafetensorsReader reader(path_of(file));
  SafetensorsMetadata identity = reader.metadata();
  for (const SafetensorsEntry& entry : reader.entries()) {
    const auto text = identity.find(std::string(part_prefix) + entry.name);
    if (text == identity.end())
      fail<InputError>("{}: does not state the part of the whole that its tensor '{}' is", reader.path().string(),
                       shortened(entry.name));
    const std::optional<ParameterPart> part = part_of_text(text->second);
    if (!part || part->held_shape() != entry.shape)
      fail<InputError>("{}: tensor '{}' is {}: it cannot be the part '{}'", reader.path().string(),
                       shortened(entry.name), to_string(entry.dtype, entry.shape), shortened(text->second));
    stored_[entry.name].push_back({file, entry.dtype, *part});
    identity.erase(text);
  }
  if (file == 0) {
    size_ = size_of_identity(reader.path(), identity);
    identity_ = std::move(identity);
  } else if (identity != identity_) {
    verify(0);  // otherwise the damage of one file would be blamed on another
    fail<InputError>("{}: belongs to a different checkpoint than {}", reader.path().string(), path_of(0).string());
  }
}

std::span<const CheckpointFiles::Stored> CheckpointFiles::stored(const std::string& name) const {
  const auto found = stored_.find(name);
  return found == stored_.end() ? std::span<const Stored>() : std::span(found->second);
}

std::vector<std::string> CheckpointFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, parts] : stored_) names.push_back(name);
  return names;
}

std::optional<CheckpointFiles::Whole> CheckpointFiles::find(const std::string& name) const {
  const std::span<const Stored> all = stored(name);
  return all.empty() ? std::nullopt : std::optional(Whole{all[0].dtype, all[0].part.whole});
}

void CheckpointFiles::check(const StateTensor& wanted) const {
  const std::span<const Stored> all = stored(wanted.name);
  if (all.empty()) fail<InputError>("{}: has no tensor '{}'", folder_.string(), wanted.name);
  std::int64_t held = 0;
  for (auto one = all.begin(); one != all.end(); ++one) {
    const std::string path = path_of(one->file).string();
    if (one->part.whole != wanted.part.whole || one->dtype != wanted.value.dtype())
      fail<InputError>("{}: {} is {}, but this run needs {}", path, wanted.name, to_string(one->dtype, one->part.whole),
                       to_string(wanted.value.dtype(), wanted.part.whole));
    for (auto other = all.begin(); other != one; ++other)
      for_each_shared_run(other->part, one->part, [&](const SharedRun& run) {
        fail<InputError>("{} and {}: both hold {} of the same elements of {}", path_of(other->file).string(), path,
                         run.count, wanted.name);
      });
    for_each_shared_run(wanted.part, one->part, [&held](const SharedRun& run) { held += run.count; });
  }
  if (held != wanted.value.numel())
    fail<InputError>("{}: its {} files hold {} of the {} elements of {} that a rank needs", folder_.string(), size_,
                     held, wanted.value.numel(), wanted.name);
}

void CheckpointFiles::verify(int file) const {
  const FileDescriptor opened = FileDescriptor::open_for_reading(path_of(file));
  std::uint32_t checksum = 0;
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < opened.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(opened.size() - at, static_cast<std::uint64_t>(piece_bytes)));
    opened.read_at(at, piece);
    checksum = crc32c(piece, checksum);
  }
  const std::string saved = read_file(checksum_file(folder_, file), 64);
  if (saved.size() != checksum_text(0).size())
    fail<InputError>("{}: is damaged: expected a checksum of 8 hexadecimal digits, got {}",
                     checksum_file(folder_, file).string(), in_quotes(saved));
  if (checksum_text(checksum) != saved)
    fail<InputError>("{}: is damaged: its checksum differs from the saved one", path_of(file).string());
}

void CheckpointFiles::load(int file, const std::vector<StateTensor>& wanted) const {
  const auto is_there = [&](const Stored& one) { return one.file == file; };
  if (std::none_of(wanted.begin(), wanted.end(), [&](const StateTensor& tensor) {
        const std::span<const Stored> all = stored(tensor.name);
        return std::any_of(all.begin(), all.end(), is_there);
      }))
    return;
  const SafetensorsReader reader(path_of(file));
  std::vector<std::byte> buffer;
  for (const StateTensor& tensor : wanted)
    for (const Stored& one : stored(tensor.name)) {
      if (!is_there(one)) continue;
      const std::size_t index = reader.index_of(tensor.name);
      const std::uint64_t element = size_of(one.dtype);
      PiecewiseLoad load(tensor.value, buffer);
      for_each_shared_run(tensor.part, one.part, [&](const SharedRun& run) {
        load.add(run.a, run.count, [&](std::span<std::byte> place, std::int64_t first) {
          reader.read(index, place, static_cast<std::uint64_t>(run.b + first) * element);
          if (const auto bad = first_not_finite(place, one.dtype))
            fail<InputError>("{}: {} has an element that is {}", reader.path().string(), tensor.name, *bad);
        });
      });
      load.flush();
    }
}

}  // namespace heddle
