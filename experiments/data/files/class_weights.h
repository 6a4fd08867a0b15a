// Weights of people in the loss, from a text file with `person weight` in each line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heddle {

class Describer;

/// The key `class_weights` of a data set.
void describe_class_weights(Describer& d, std::string& class_weights);

/// A finite number >= 0. InputError, which names the file and the line, if the text is something else.
double read_weight(const std::string& path, std::int64_t line, std::string_view text);

class ClassWeights {
 public:
  enum class Names {
    texts,
    numbers,  ///< leading zeros do not matter, as in lists whose labels are all numbers
  };

  /// Reads the file; with an empty path, the weight of everybody is 1. Person and weight are separated by the last tab
  /// or, without tabs, by the last blank. InputError if the file cannot be used.
  explicit ClassWeights(std::string path, Names names = Names::texts);

  bool is_empty() const { return lines_.empty(); }
  /// The weight of a person with training images; 1, and counted, if the file does not name them.
  double of(std::string_view person);
  /// Accepts a person without training images, whose weight has no effect.
  void accept(std::string_view person);
  /// To be called after all people. InputError if the file names somebody else; a note on people whom it does not name.
  /// `title` is that of the data.
  void finish(std::string_view title, std::vector<std::string>& notes) const;

 private:
  struct Line {
    std::int64_t number = 0;
    double weight = 1;
    bool is_known = false;
  };

  std::string key_of(std::string_view person) const;

  std::string path_;
  Names names_;
  std::unordered_map<std::string, Line> lines_;
  std::int64_t without_ = 0;  // people whom the file does not name
};

}  // namespace heddle
