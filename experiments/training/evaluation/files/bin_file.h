// Verification sets in one file, as InsightFace and others publish them (lfw.bin, cfp_fp.bin, agedb_30.bin): a Python
// pickle of 2 n encoded images and n labels. Images 2 i and 2 i + 1 are pair i, which shows one person if its label is
// true. Python 2's strings, bytes and NumPy arrays of u1 are read; nothing in the file is executed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/training/evaluation/protocol/pairs.h"
#include "framework/files/pickle/pickle.h"

namespace heddle {

class BinFile {
 public:
  /// InputError names the file and what is wrong: the byte of an operation, or the number of an image or a label.
  explicit BinFile(const std::filesystem::path& path);
  BinFile(const BinFile&) = delete;
  BinFile& operator=(const BinFile&) = delete;

  std::int64_t images() const { return static_cast<std::int64_t>(images_.size()); }
  /// An encoded image.
  std::span<const std::uint8_t> image(std::int64_t i) const { return images_.at(static_cast<std::size_t>(i)); }
  /// `lfw.bin, image 7`.
  std::string image_name(std::int64_t i) const;
  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  /// InputError for a file that cannot be a pickle.
  void check_is_pickle() const;
  void read_images(const PickleValue& list);
  void read_labels(const PickleValue& list);

  std::string path_;
  std::string text_;  // the whole file, into which the images point
  std::unique_ptr<const Pickle> pickle_;
  std::vector<std::span<const std::uint8_t>> images_;
  std::vector<Pair> pairs_;
};

}  // namespace heddle
