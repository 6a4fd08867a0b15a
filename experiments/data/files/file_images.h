// A data set whose samples are files. Only their names are kept; a file is decoded when its sample is read.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "experiments/data/encoded_images.h"
#include "experiments/data/files/file_set.h"

namespace heddle {

class FileImages final : public EncodedImages {
 public:
  /// Sets of up to this many images are decoded once at the start, so that a broken file is found before training. In
  /// larger sets only headers, and the length of binary PGM and PPM files, are checked, because decoding a million
  /// faces takes minutes; other damage is found when the file is read.
  static constexpr std::int64_t decoded_at_start = 4096;

  /// InputError if a file is broken; OnBroken::skip leaves it out instead.
  FileImages(FileSet files, Preprocessing preprocessing, OnBroken on_broken);

  std::int64_t classes() const override { return files_.classes; }
  std::vector<std::string> class_names() const override { return files_.names; }
  std::int64_t size(Split split) const override { return samples(split).size(); }
  std::int64_t label(Split split, std::int64_t index) const override;
  bool has_weights() const override { return files_.train.has_weights(); }
  double weight(std::int64_t index) const override;
  /// The file's path.
  std::string sample_name(Split split, std::int64_t index) const override;
  std::span<const std::uint8_t> encoded(Split split, std::int64_t index,
                                        std::vector<std::uint8_t>& buffer) const override;
  /// Asks the file system for the sizes of all training files, once.
  std::optional<ImagesChecksum> training_checksum() const override;

 private:
  const SampleList& samples(Split split) const { return split == Split::train ? files_.train : files_.test; }
  void check(Split split, std::int64_t index) const;
  /// The error of each broken file, by its number. Test images are numbered after the training images.
  using Broken = std::map<std::int64_t, std::string>;

  /// Checks every file and returns the broken ones.
  Broken find_broken() const;
  /// Removes these files, and the people who have no training image left.
  void leave_out(const Broken& broken);

  ImagesChecksum checksum_of_training() const;

  FileSet files_;
  mutable std::once_flag has_checksum_;
  mutable ImagesChecksum checksum_;
};

}  // namespace heddle
