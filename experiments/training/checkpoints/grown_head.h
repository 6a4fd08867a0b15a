// A trained head whose classes change when a run resumes: people are added or dropped, and the others keep their
// weights and the optimizer's state for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/training/checkpoints/checkpoint_files.h"

namespace heddle {

/// The class of a checkpoint that each class of a run was.
class ClassOrigins {
 public:
  /// By name, where both have names; classes without a name, and all of them where neither has names, by number.
  /// InputError if only one of both has names, or no class stays; `key` is that of the head.
  ClassOrigins(const std::vector<std::string>& saved_names, std::int64_t saved_classes,
               const std::vector<std::string>& names, std::int64_t classes, const std::string& key);

  /// Consecutive classes that were consecutive in the checkpoint.
  struct Run {
    std::int64_t begin = 0;
    std::int64_t was = 0;
    std::int64_t count = 0;
  };
  const std::vector<Run>& runs() const { return runs_; }
  std::int64_t classes() const { return classes_; }
  std::int64_t saved_classes() const { return saved_classes_; }
  /// "from 40 to 45 classes: 38 stay, 7 are new, 2 are dropped".
  std::string description() const;

 private:
  void add(std::int64_t now, std::int64_t was);

  std::int64_t classes_;
  std::int64_t saved_classes_;
  std::vector<Run> runs_;
  std::int64_t stay_ = 0;
};

/// The parts of a tensor of the head that a checkpoint has, where they lie there, sharing the tensor's elements: rows
/// of classes that stay. A tensor that is not divided by classes is returned as it is.
std::vector<StateTensor> saved_parts(const StateTensor& tensor, const ClassOrigins& origins);

}  // namespace heddle
