// Conditions that no single field of an experiment can know. A run checks them before anything else; the program checks
// them for all variants of a study before it runs the first one.
#pragma once

#include <string>

#include "experiments/training/experiment.h"
#include "framework/error.h"

namespace heddle {

/// Something is wrong with the value of one key. The text of the exception begins with the key: `train.batch: expected
/// at least 8, got 4: ..`.
class KeyError : public InputError {
 public:
  KeyError(std::string pointer, const std::string& text);

  /// The key as a JSON pointer: `/train/batch`.
  const std::string& pointer() const { return pointer_; }
  /// The text without the key.
  const std::string& text() const { return text_; }

 private:
  std::string pointer_;
  std::string text_;
};

/// KeyError if fields contradict each other, or if the model cannot be made for the images, placed on the mesh and cut
/// into its stages.
void check(const Experiment& experiment);

/// KeyError if the device lacks what the experiment needs, or the transport does not move its memory. A plan
/// does without this: it counts what the device would hold, by whatever clock or transport.
void check_device(const Experiment& experiment);

}  // namespace heddle
