#include "experiments/training/evaluation/evaluation_config.h"

#include <algorithm>

#include "experiments/training/experiment.h"
#include "framework/description/describe.h"
#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

void describe_threshold(Describer& d, EvaluationSetConfig& c) {
  d.field("threshold_from", c.threshold_from,
          "the set whose best threshold is used for this one; left out: each fold uses the best threshold of the "
          "other nine");
}

void describe_pairs(Describer& d, EvaluationSetConfig& c) {
  d.field(required("path"), c.path, "the folder of the images");
  d.field(required("pairs"), c.list,
          "the file that lists the pairs: in LFW's format (name i j, or name i name j, with or without its header), or "
          "lines of file, file and 1 or 0");
  describe_threshold(d, c);
}

void describe_bin(Describer& d, EvaluationSetConfig& c) {
  d.field(required("path"), c.path,
          "the file: a Python pickle of 2 n encoded images and n labels, which is read without Python");
  describe_threshold(d, c);
}

void describe_drawn(Describer& d, EvaluationSetConfig& c) {
  d.field("pairs", c.drawn, between(20, 1e8), "the largest number of pairs that are drawn from the data's test images");
  describe_threshold(d, c);
}

void describe_templates(Describer& d, EvaluationSetConfig& c) {
  d.field(required("path"), c.path, "the folder of the images");
  d.field(required("templates"), c.templates, "the file that lists the templates: lines of image, template and medium");
  d.field(required("pairs"), c.list, "the file that lists the pairs: lines of template, template and 1 or 0");
  describe_threshold(d, c);
}

void describe_identification(Describer& d, EvaluationSetConfig& c) {
  d.field(required("path"), c.path, "the folder of the images");
  d.field(required("gallery"), c.gallery, "the file that lists the gallery: lines of image and person");
  d.field(required("probes"), c.probes, "the file that lists the probes: lines of image and person");
  d.field("distractors", c.distractors,
          "the file that lists the distractors, further images of the gallery, one per line; left out: none");
}

constexpr auto set_types = enum_table<EvaluationSetType, AlternativeRow<EvaluationSetConfig>>({
    {EvaluationSetType::pairs, {"pairs", "images of a folder, in pairs that a file lists", describe_pairs}},
    {EvaluationSetType::bin, {"bin", "a verification set in one file, such as InsightFace's lfw.bin", describe_bin}},
    {EvaluationSetType::drawn, {"drawn", "pairs drawn from the data's test images", describe_drawn}},
    {EvaluationSetType::templates,
     {"templates", "several images of a person compared as one, as in the IJB benchmarks", describe_templates}},
    {EvaluationSetType::identification,
     {"identification", "probes, whose people are searched for in a gallery, which may have distractors",
      describe_identification}},
});

void check_set_names(const std::vector<EvaluationSetConfig>& sets, std::size_t i) {
  const EvaluationSetConfig& set = sets[i];
  const auto named = [&](const std::string& name) {
    return std::count_if(sets.begin(), sets.end(),
                         [&](const EvaluationSetConfig& other) { return other.name == name; });
  };
  if (set.name.empty()) fail<InputError>("sets[{}].name: expected a name, got \"\"", i);
  if (named(set.name) > 1) fail<InputError>("sets[{}].name: two sets are named {}", i, in_quotes(set.name));
  if (set.threshold_from == set.name)
    fail<InputError>("sets[{}].threshold_from: expected another set than {}", i, in_quotes(set.name));
  if (!set.threshold_from.empty() && named(set.threshold_from) == 0)
    fail<InputError>("sets[{}].threshold_from: there is no set {}", i, in_quotes(set.threshold_from));
  const bool names_identification = std::any_of(sets.begin(), sets.end(), [&](const EvaluationSetConfig& other) {
    return other.name == set.threshold_from && other.type == EvaluationSetType::identification;
  });
  if (names_identification)
    fail<InputError>("sets[{}].threshold_from: expected a set of pairs, {} has none", i, in_quotes(set.threshold_from));
}

}  // namespace

void describe(Describer& d, EvaluationSetConfig& c) {
  d.field(required("name"), c.name, "names the set in the results");
  alternatives(d, c.type, set_types, c, "what the set compares");
}

void describe(Describer& d, EvaluationConfig& c) {
  d.field("batch", c.batch, between(1, 1e6), "images in each forward pass of each rank along dp");
  d.field("pairs", c.pairs, between(20, 1e8), "the largest number of pairs of test images for verification");
  d.field("flip", c.flip, "add the embedding of the mirror image to that of the image");
  list(d, "sets", c.sets, between(0, 1000), "the sets to evaluate; their people need not be in the training data");
  d.field("every", c.every, between(0, 1e12), "steps between evaluations of the sets; 0: only after training");
  d.field("keep_best", c.keep_best,
          "keep the checkpoint with the best accuracy on the first set, in the folder best beside the others");
}

void check_evaluation(const Experiment& experiment) {
  const EvaluationConfig& config = experiment.evaluation;
  for (std::size_t i = 0; i < config.sets.size(); ++i) check_set_names(config.sets, i);
  const auto needs = [](bool is_met, const char* what) {
    if (!is_met) fail<InputError>("{}", what);
  };
  if (config.every > 0) {
    needs(!config.sets.empty(), "every: expected sets to evaluate, in evaluation.sets");
    needs(!experiment.train.forward_only, "every: expected 0 with train.forward_only, which learns nothing");
  }
  if (config.keep_best) {
    needs(config.every > 0, "keep_best: expected evaluation.every, the steps between evaluations");
    needs(experiment.train.save, "keep_best: expected train.save");
  }
}

}  // namespace heddle
