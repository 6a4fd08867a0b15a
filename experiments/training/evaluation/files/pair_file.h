// Lists of pairs of images. Lists are not trusted. The first line determines which of three formats a list has:
//
//   500                              Labeled Faces in the Wild, view 1: 500 pairs of one person, then 500 of two
//   Ann_Li	1	2                     photographs 1 and 2 of one person: Ann_Li/Ann_Li_0001, Ann_Li/Ann_Li_0002
//   Ann_Li	1	Bo_Ek	3               photographs of two people
//
//   10	300                          the same, view 2: ten sets, each of 300 pairs of one person and 300 of two
//
//   a/1.jpg	b/2.jpg	0              PLSC: two files, and 1 for one person or 0 for two
//
// LFW's header may be missing. Columns are separated by tabs, or by blanks in a line without tabs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/training/evaluation/protocol/pairs.h"

namespace heddle {

/// A pair of a list, with the names of its images relative to the folder of the images.
struct NamedPair {
  std::string first;
  std::string second;
  bool same = false;
  std::int64_t line = 0;  // counts from 1
};

struct PairFile {
  std::vector<NamedPair> pairs;
  /// Whether the names lack the ending of their files, as LFW's do.
  bool lacks_endings = false;
};

/// InputError names the file, the line and what is wrong with it: a line of another format, a column that is not a
/// number, or fewer or more pairs than the header announces.
PairFile read_pair_file(const std::filesystem::path& path);

/// The images that pairs name, each once, in the order in which they are first named.
struct PairedImages {
  std::vector<std::string> files;
  std::vector<Pair> pairs;  // indices into `files`
};

/// Finds the images in a folder; a missing ending is .jpg, .jpeg or .png. InputError names the list, its line, the pair
/// and the missing file.
PairedImages find_paired_images(const std::filesystem::path& list, const std::filesystem::path& folder);

}  // namespace heddle
