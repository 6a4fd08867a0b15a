// The index of a `.rec`: the offset of each record by its key, as text (`.idx`) with one line `key<tab>offset` per
// record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "experiments/data/recordio/record_file.h"

namespace heddle {

/// Removes the elements at `positions`, which ascend.
template <class T>
void erase_positions(std::vector<T>& elements, const std::vector<std::size_t>& positions) {
  std::size_t erased = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (erased < positions.size() && positions[erased] == i)
      ++erased;
    else
      elements[i - erased] = elements[i];
  }
  elements.resize(elements.size() - erased);
}

/// Records in the order of the index. Takes 8 bytes for each, and another 8 if their keys are not consecutive.
class RecordIndex {
 public:
  std::size_t size() const { return offsets_.size(); }
  RecordPlace place(std::size_t position) const { return {offsets_[position], key(position)}; }
  std::uint64_t key(std::size_t position) const { return keys_.empty() ? first_key_ + position : keys_[position]; }
  /// The position of a key. Takes linear time if keys are not consecutive.
  std::optional<std::size_t> find(std::uint64_t key) const;
  /// Whether each key is one more than the one before it.
  bool counts_up() const { return keys_.empty(); }
  /// Whether the records are in the order in which they lie in the file.
  bool follows_file() const;

  void reserve(std::size_t records) { offsets_.reserve(records); }
  /// Appends a record; a key must not be used twice.
  void add(RecordPlace place);
  void sort_by_key();
  /// Keeps only the `count` records from position `first` on.
  void keep(std::size_t first, std::size_t count);
  /// Removes the records at `positions`, which ascend.
  void erase(const std::vector<std::size_t>& positions);

 private:
  void list_keys();

  std::vector<std::uint64_t> offsets_;
  std::uint64_t first_key_ = 0;
  std::vector<std::uint64_t> keys_;  // empty while they count up from first_key_
};

/// Reads the index of a `.rec`. InputError with the number of the line unless every line has two numbers below 2^64,
/// separated by a tab, and ends with `\n` or `\r\n`, no key occurs twice, and every offset lies in the `.rec`. A last
/// line without an end is refused, because the file may have been cut within the number.
RecordIndex read_record_index(const std::filesystem::path& path, const RecordFile& records);

/// Writes the lines of the index into a file that the caller commits.
void write_record_index(AtomicFile& file, const RecordIndex& index);

}  // namespace heddle
