// The key `evaluation` of an experiment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/description/enum_table.h"

namespace heddle {

class Describer;
struct Experiment;

enum class EvaluationSetType { pairs, bin, drawn, templates, identification };

/// A set that is evaluated. Its people need not be in the training data.
struct EvaluationSetConfig {
  std::string name;
  std::optional<EvaluationSetType> type{};
  std::string path{};            // the folder of the images; bin: the file
  std::string list{};            // pairs, templates: the file that lists the pairs
  std::int64_t drawn = 6000;     // drawn: the largest number of pairs
  std::string threshold_from{};  // the name of another set; empty: chosen on the other folds
  std::string templates{};       // templates: the file that lists their images
  // identification: the files that list the images
  std::string gallery{};
  std::string probes{};
  std::string distractors{};  // empty: none

  std::vector<std::string*> paths() { return {&path, &list, &templates, &gallery, &probes, &distractors}; }
};
void describe(Describer& d, EvaluationSetConfig& config);

struct EvaluationConfig {
  std::int64_t batch = 64;
  std::int64_t pairs = 6000;
  bool flip = true;  // embeddings of an image and of its mirror image are summed
  std::vector<EvaluationSetConfig> sets;
  std::int64_t every = 0;  // steps; 0: after training only
  bool keep_best = false;
};
void describe(Describer& d, EvaluationConfig& config);

/// Checks the names of the sets, that `threshold_from` names one of them, and that the experiment has what `every` and
/// `keep_best` need. InputError begins with the key within `evaluation`.
void check_evaluation(const Experiment& experiment);

}  // namespace heddle
