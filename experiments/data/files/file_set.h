// The files of a data set and their labels, as a folder or a list gives them before any image is opened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// Paths, labels and weights in the order of the samples. The paths are stored in one string, because millions of
/// separate strings would take twice the memory.
class SampleList {
 public:
  void add(std::string_view path, std::int64_t label, double weight = 1);
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  std::string_view path(std::int64_t index) const;
  std::int64_t label(std::int64_t index) const { return labels_[static_cast<std::size_t>(index)]; }
  /// Whether a sample has another weight than 1.
  bool has_weights() const { return !weights_.empty(); }
  double weight(std::int64_t index) const { return has_weights() ? weights_[static_cast<std::size_t>(index)] : 1; }

 private:
  std::string paths_;
  std::vector<std::uint64_t> ends_;
  std::vector<std::int64_t> labels_;
  std::vector<double> weights_;  // empty as long as all are 1
};

struct FileSet {
  std::string title;  ///< in messages: `image folder "faces"`
  std::string root;   ///< the folder of relative paths
  SampleList train;
  SampleList test;
  /// Labels 0 .. classes-1 are people with training images. People who are only tested have the labels that follow.
  std::int64_t classes = 0;
  std::vector<std::string> names{};  ///< of the labels 0 .. classes-1
  std::vector<std::string> notes{};  ///< report to the user what was left out
};

/// InputError unless this many people have training images. `min_images` is the number below which people were left
/// out.
void expect_people(const FileSet& files, std::int64_t people, std::int64_t min_images);

/// The note on people who are left out because they have too few images.
std::string note_of_rare(std::string_view title, std::int64_t people, std::int64_t min_images, std::int64_t images);

}  // namespace heddle
