// Which files make up a data set, and whose they are: what a folder or a list says before an image is opened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// Paths and labels in the order of the samples. The paths lie in one string: millions of strings of their own would
/// take twice the memory.
class SampleList {
 public:
  void add(std::string_view path, std::int64_t label);
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  std::string_view path(std::int64_t index) const;
  std::int64_t label(std::int64_t index) const { return labels_[static_cast<std::size_t>(index)]; }

 private:
  std::string paths_;
  std::vector<std::uint64_t> ends_;
  std::vector<std::int64_t> labels_;
};

struct FileSet {
  std::string title;  ///< in messages: `image folder "faces"`
  std::string root;   ///< what relative paths are relative to
  SampleList train;
  SampleList test;
  /// People with labels 0 .. classes-1 train. Those who are tested only have the labels that follow.
  std::int64_t classes = 0;
  std::vector<std::string> notes{};  ///< what was left out, for the user to read
};

/// "1 image", "2 images".
std::string counted(std::int64_t number, std::string_view one, std::string_view many);

/// The note on people who are left out, because they have too few images.
std::string note_of_rare(std::string_view title, std::int64_t people, std::int64_t min_images, std::int64_t images);

}  // namespace heddle
