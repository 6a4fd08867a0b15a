// A data set whose samples are files. They are decoded when they are read; only their names are kept.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/data/encoded_images.h"
#include "experiments/data/files/file_set.h"

namespace heddle {

class FileImages final : public EncodedImages {
 public:
  /// Sets of up to this many images are decoded once at the start, so that a broken file is found before training; in
  /// larger ones only headers and the length of binary PGM and PPM are checked (decoding a million faces would take
  /// minutes), and other damage is found when the file is read.
  static constexpr std::int64_t decoded_at_start = 4096;

  /// InputError if a file is broken, or is left out with OnBroken::skip.
  FileImages(FileSet files, Preprocessing preprocessing, OnBroken on_broken);

  std::int64_t classes() const override { return files_.classes; }
  std::int64_t size(Split split) const override { return samples(split).size(); }
  std::int64_t label(Split split, std::int64_t index) const override;
  /// The file's path.
  std::string sample_name(Split split, std::int64_t index) const override;
  std::span<const std::uint8_t> encoded(Split split, std::int64_t index,
                                        std::vector<std::uint8_t>& buffer) const override;

 private:
  const SampleList& samples(Split split) const { return split == Split::train ? files_.train : files_.test; }
  void check(Split split, std::int64_t index) const;
  /// What is wrong with each broken file, by its number; those of test images follow those of training images.
  using Broken = std::map<std::int64_t, std::string>;

  /// Opens every file.
  Broken find_broken() const;
  /// Leaves these files out, and people of whom no training image is left.
  void leave_out(const Broken& broken);

  FileSet files_;
};

}  // namespace heddle
