// Where the values of a merged experiment came from, and the errors found in them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/value.h"

namespace heddle {

/// The order of every value of a `--set`: after the file's.
inline constexpr std::uint32_t after_the_file = std::numeric_limits<std::uint32_t>::max();

/// A file, the patches inside it, and the `--set`s that came on top. Origin 0 is the file itself.
class Source {
 public:
  explicit Source(std::string file);
  /// A merge patch at `pointer` within the file.
  std::uint32_t add_patch(std::string pointer);
  /// `--set`: `dotted` is the path as the user wrote it, `pointer` what it leads to.
  std::uint32_t add_set(std::string_view dotted, std::string pointer);

  const std::string& file() const { return origins_[0].place; }
  /// Where the value at `pointer` in the merged experiment stands: `experiment.json: /variants/2/patch/train/batch` or
  /// `--set train.batch`.
  std::string where(std::uint32_t origin, std::string_view pointer) const;

 private:
  struct Origin {
    std::string place;
    std::string prefix;      ///< of pointers within the file
    std::string set_target;  ///< the pointer that a --set leads to
  };
  std::vector<Origin> origins_;
};

/// The errors of one experiment, reported together in the file's order.
class Problems {
 public:
  /// Equal texts (a wrong base value is met in every variant) count once.
  void add(std::uint32_t order, std::string text);
  bool is_empty() const { return problems_.empty(); }
  /// Whether there are so many that further ones are only counted.
  bool is_full() const;
  void skip_one() { ++more_; }
  /// Throws one InputError with a line for each of the first twenty problems; does nothing if there are none.
  void raise();

 private:
  struct Problem {
    std::uint32_t order;
    std::string text;
  };
  std::vector<Problem> problems_;
  std::size_t more_ = 0;
};

}  // namespace heddle
