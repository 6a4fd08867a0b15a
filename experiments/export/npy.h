// NumPy's files of one matrix in f32 (.npy): rows of embeddings. They are written and read in pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "framework/files/atomic_file.h"

namespace heddle {

/// Writes [rows, columns]; the file appears when it is complete.
class NpyWriter {
 public:
  NpyWriter(std::filesystem::path path, std::int64_t rows, std::int64_t columns);
  /// Appends rows. Error if there are more than were announced.
  void append(std::span<const float> values);
  /// Brings everything to disk under a temporary name. Error if rows are missing.
  void finish();
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  std::uint64_t missing_ = 0;  // numbers
};

class NpyReader {
 public:
  /// Reads the header only. The file is not trusted: InputError unless it has a matrix of little-endian f32 in C order
  /// with at least one element, and exactly the bytes that the shape needs.
  explicit NpyReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Reads whole rows from `first` on.
  void read(std::int64_t first, std::span<float> values) const;

 private:
  FileDescriptor file_;
  std::uint64_t data_ = 0;  // where the elements begin
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
};

}  // namespace heddle
