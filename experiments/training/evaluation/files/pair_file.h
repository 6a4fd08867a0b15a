// Lists of pairs of images, from files that nobody has checked. Three forms are told apart by their first line:
//
//   500                              Labeled Faces in the Wild, view 1: 500 pairs of one person, then 500 of two
//   Ann_Li	1	2                     photographs 1 and 2 of one person: Ann_Li/Ann_Li_0001, Ann_Li/Ann_Li_0002
//   Ann_Li	1	Bo_Ek	3               photographs of two
//
//   10	300                          the same, view 2: ten sets, each of 300 pairs of one person and 300 of two
//
//   a/1.jpg	b/2.jpg	0              PLSC: two files, and 1 for one person or 0 for two
//
// LFW's header may be missing. Columns are separated by tabs, or in a line without any by blanks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/training/evaluation/protocol/pairs.h"

namespace heddle {

/// A pair of a list, with the names of its images relative to their folder.
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

/// InputError names the file, the line and what is wrong with it: a line of another form, a number that is none, or
/// fewer or more pairs than the header announces.
PairFile read_pair_file(const std::filesystem::path& path);

/// The images that pairs name, each once, in the order in which they are named.
struct PairedImages {
  std::vector<std::string> files;
  std::vector<Pair> pairs;  // as numbers of `files`
};

/// Finds the images in a folder; an ending that is missing is .jpg, .jpeg or .png. InputError names the list, its line,
/// the pair and the file that is not there.
PairedImages find_paired_images(const std::filesystem::path& list, const std::filesystem::path& folder);

}  // namespace heddle
