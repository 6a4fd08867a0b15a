// A folder of small images and lists for one test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scratch.h"

namespace heddle::test {

/// The folder is removed at the end of the test.
class WrittenImages {
 public:
  WrittenImages() : path_((scratch_ / "images").string()) { std::filesystem::create_directory(path_); }

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return (std::filesystem::path(path_) / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  /// A gray picture of 2 x 2 pixels of one value.
  void picture(const std::string& name, char value) const { write(name, "P5 2 2 255\n" + std::string(4, value)); }
  void remove(const std::string& name) const { std::filesystem::remove_all(path(name)); }

 private:
  Scratch scratch_;
  std::string path_;
};

}  // namespace heddle::test
