#include "experiments/data/recordio/record_index.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// Removes the decimal number at the front of `text` and returns it; empty if there is none or it exceeds 64 bits.
std::optional<std::uint64_t> take_digits(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<RecordPlace> parse_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto key = take_digits(line);
  if (!key || !line.starts_with('\t')) return {};
  line.remove_prefix(1);
  const auto offset = take_digits(line);
  if (!offset || !line.empty()) return {};
  return RecordPlace{.offset = *offset, .key = *key};
}

/// Positions sorted by key; positions of equal keys keep their order.
std::vector<std::size_t> by_key(const RecordIndex& index) {
  std::vector<std::size_t> positions(index.size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::size_t a, std::size_t b) { return index.key(a) < index.key(b); });
  return positions;
}

void refuse_duplicate_keys(const std::filesystem::path& path, const RecordIndex& index) {
  if (index.counts_up()) return;
  const std::vector<std::size_t> positions = by_key(index);
  const auto first = std::adjacent_find(positions.begin(), positions.end(),
                                        [&](std::size_t a, std::size_t b) { return index.key(a) == index.key(b); });
  if (first != positions.end())
    fail<InputError>("{}, line {}: key {} is already in line {}", path.string(), *std::next(first) + 1,
                     index.key(*first), *first + 1);
}

}  // namespace

std::optional<std::size_t> RecordIndex::find(std::uint64_t key) const {
  if (counts_up()) {
    if (key < first_key_ || key - first_key_ >= size()) return {};
    return key - first_key_;
  }
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  if (found == keys_.end()) return {};
  return static_cast<std::size_t>(found - keys_.begin());
}

bool RecordIndex::follows_file() const {
  return std::is_sorted(offsets_.begin(), offsets_.end());
}

void RecordIndex::add(RecordPlace place) {
  if (offsets_.empty()) first_key_ = place.key;
  const bool counts_on = keys_.empty() && place.key == first_key_ + size();
  if (!counts_on && keys_.empty()) list_keys();
  offsets_.push_back(place.offset);
  if (!counts_on) keys_.push_back(place.key);
}

void RecordIndex::list_keys() {
  keys_.reserve(offsets_.capacity());
  keys_.resize(size());
  std::iota(keys_.begin(), keys_.end(), first_key_);
}

void RecordIndex::sort_by_key() {
  if (counts_up()) return;
  RecordIndex sorted;
  sorted.reserve(size());
  for (const std::size_t position : by_key(*this)) sorted.add(place(position));
  *this = std::move(sorted);
}

void RecordIndex::keep(std::size_t first, std::size_t count) {
  const auto cut = [&](std::vector<std::uint64_t>& numbers) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(first);
    numbers.erase(begin + static_cast<std::ptrdiff_t>(count), numbers.end());
    numbers.erase(numbers.begin(), begin);
    numbers.shrink_to_fit();
  };
  if (counts_up())
    first_key_ += first;
  else
    cut(keys_);
  cut(offsets_);
}

void RecordIndex::erase(const std::vector<std::size_t>& positions) {
  if (positions.empty()) return;
  if (counts_up()) list_keys();
  erase_positions(offsets_, positions);
  erase_positions(keys_, positions);
}

RecordIndex read_record_index(const std::filesystem::path& path, const RecordFile& records) {
  const MappedFile file(path);
  file.expect(MappedFile::Order::ascending);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  if (text.empty()) fail<InputError>("{}: the file is empty", path.string());
  RecordIndex index;
  index.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const auto complain = [&](std::string_view what) {
      fail<InputError>("{}, line {}: {}", path.string(), index.size() + 1, what);
    };
    if (end == std::string_view::npos) complain("truncated: the file ends within this line");
    const std::optional<RecordPlace> place = parse_line(line);
    if (!place) complain(fmt::format("expected a key, a tab and an offset, got {}", in_quotes(line)));
    if (place->offset >= records.size())
      complain(fmt::format("offset {} is beyond the end of {}, which has {} bytes", place->offset,
                           records.path().string(), records.size()));
    index.add(*place);
    text.remove_prefix(end + 1);
  }
  refuse_duplicate_keys(path, index);
  return index;
}

void write_record_index(AtomicFile& file, const RecordIndex& index) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    const RecordPlace place = index.place(i);
    file.write(fmt::format("{}\t{}\n", place.key, place.offset));
  }
}

}  // namespace heddle
