// The files of one checkpoint: a safetensors file and its checksum for each rank that saved. Every tensor in them is
// stored with the part of a whole that it is, so that ranks laid out in any other way find what they hold. In the
// metadata, under `part of head.weight`:
//
//   [1000,512] at [500,0] size [500,512]                       a box of the whole
//   [64,576] at [0,0] size [64,576] elements [0,18432]         of the box: where elements begin, and how many,
//   row-major
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/files/safetensors.h"
#include "layers/parameter.h"

namespace heddle {

/// Writes a rank's file with these tensors and their parts, piece by piece, and its checksum beside it. `identity` is
/// what the files of all ranks say alike.
void write_rank_file(const std::filesystem::path& folder, int rank, const std::vector<StateTensor>& tensors,
                     SafetensorsMetadata identity);

class CheckpointFiles {
 public:
  /// Reads what all files have, no elements. InputError names the file: one that is missing or broken, or of another
  /// checkpoint than the first; a tensor whose part is not told, or not possible.
  explicit CheckpointFiles(std::filesystem::path folder);

  const SafetensorsMetadata& identity() const { return identity_; }
  int size() const { return size_; }
  /// InputError unless the tensor is there with this type and whole shape, and each element that the rank holds of it
  /// in exactly one file. Names the tensor, the files, and both shapes.
  void check(const StateTensor& wanted) const;
  /// InputError if a file is not what was saved.
  void verify(int file) const;
  /// Fills the tensors with what one file has of them, through a host buffer of a few MiB.
  void load(int file, const std::vector<StateTensor>& wanted) const;

 private:
  struct Stored {
    int file;
    DType dtype;
    ParameterPart part;
  };

  std::filesystem::path path_of(int file) const;
  void add_file(int file);
  std::span<const Stored> stored(const std::string& name) const;

  std::filesystem::path folder_;
  int size_ = 1;
  SafetensorsMetadata identity_;
  std::map<std::string, std::vector<Stored>, std::less<>> stored_;
};

}  // namespace heddle
