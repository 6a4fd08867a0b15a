// The files of one checkpoint: a safetensors file and its checksum for each rank that saved. Each tensor is stored with
// its part of the whole, so that ranks in any other layout find what they hold. The metadata say under
// `part of head.weight`:
//
//   [1000,512] at [500,0] size [500,512]                  a box of the whole
//   [64,576] at [0,0] size [64,576] elements [0,18432]    a range of the box's elements in row-major order: the first,
//                                                         and how many
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/files/safetensors.h"
#include "layers/parameter.h"

namespace heddle {

/// The header of a rank's file: its tensors, with their parts in the metadata, and what the files of all ranks state.
struct RankFileHeader {
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
};
/// `identity` is the metadata that the files of all ranks have in common.
RankFileHeader header_of(const std::vector<StateTensor>& tensors, SafetensorsMetadata identity);

/// Writes a rank's file and its checksum beside it. `write_elements` writes the elements of all tensors of the header,
/// one tensor after the other.
void write_rank_file(const std::filesystem::path& folder, int rank, const RankFileHeader& header,
                     const std::function<void(SafetensorsWriter&)>& write_elements);
/// Calls use(tensor, bytes) with the elements of tensors, in pieces of a few MiB in a host buffer.
void read_in_pieces(const std::vector<StateTensor>& tensors,
                    const std::function<void(const StateTensor&, std::span<const std::byte>)>& use);

class CheckpointFiles {
 public:
  /// Reads the headers of all files, no elements. InputError names a file that is missing or broken, that belongs to a
  /// different checkpoint from the first, or that has a tensor whose part is absent or impossible.
  explicit CheckpointFiles(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const SafetensorsMetadata& identity() const { return identity_; }
  int size() const { return size_; }
  /// The names of all tensors, sorted.
  std::vector<std::string> names() const;
  /// A whole tensor; its elements may lie in several files.
  struct Whole {
    DType dtype;
    Shape shape;
  };
  /// Nothing if there is no tensor of this name.
  std::optional<Whole> find(const std::string& name) const;
  /// InputError unless the tensor is there with this type and whole shape, and exactly one file has each of its
  /// elements that the rank holds. The message names the tensor, the files, and both shapes.
  void check(const StateTensor& wanted) const;
  /// InputError if a file is not as it was saved.
  void verify(int file) const;
  /// Copies the elements of these tensors that one file has, through a host buffer of a few MiB. InputError names a
  /// tensor with an element that is not finite.
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
