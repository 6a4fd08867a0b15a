#include "experiments/training/evaluation/evaluation_set.h"

#include <algorithm>

#include "experiments/training/evaluation/embed.h"
#include "experiments/training/evaluation/files/pair_file.h"
#include "framework/error.h"

namespace heddle {

namespace {

std::int64_t genuine_among(const std::vector<Pair>& pairs) {
  return std::count_if(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.same; });
}

void open_pairs(const EvaluationSetConfig& config, const Preprocessing& preprocessing, EvaluationSet& set) {
  PairedImages images = find_paired_images(config.list, config.path);
  set.pairs = std::move(images.pairs);
  set.images = images_of_files(std::move(images.files), preprocessing);
}

void open_bin(const EvaluationSetConfig& config, const Preprocessing& preprocessing, EvaluationSet& set) {
  auto file = std::make_shared<const BinFile>(config.path);
  set.pairs = file->pairs();
  set.images = images_of_bin(std::move(file), preprocessing);
}

void open_drawn(const EvaluationSetConfig& config, const Dataset& data, RandomKey key, EvaluationSet& set) {
  set.images = images_of(data, Split::test);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < set.images.size; ++i) labels.push_back(data.label(Split::test, i));
  set.pairs = balanced_pairs(labels, config.drawn, key);
}

EvaluationSet open_set(const EvaluationSetConfig& config, const Dataset& data, RandomKey key) {
  EvaluationSet set{.name = config.name, .threshold_from = config.threshold_from, .images = {}, .pairs = {}};
  switch (config.type.value()) {
    case EvaluationSetType::pairs:
      open_pairs(config, data.preprocessing(), set);
      break;
    case EvaluationSetType::bin:
      open_bin(config, data.preprocessing(), set);
      break;
    case EvaluationSetType::drawn:
      open_drawn(config, data, key, set);
      break;
  }
  const std::int64_t genuine = genuine_among(set.pairs);
  const std::int64_t impostors = static_cast<std::int64_t>(set.pairs.size()) - genuine;
  if (genuine < 2 || impostors < 2)
    fail<InputError>("evaluation set {}: expected at least 2 pairs of one person and 2 of two, got {} and {}",
                     config.name, genuine, impostors);
  return set;
}

std::vector<ComparedPair> embed_and_compare(const EvaluationConfig& config, const EvaluationSet& set,
                                            Trainer& trainer) {
  const std::vector<float> embeddings = embed_images(config, set.images, trainer);
  if (embeddings.empty()) return {};  // not rank 0
  return compare(UnitRows(embeddings, static_cast<std::size_t>(set.images.size)), set.pairs);
}

}  // namespace

std::vector<EvaluationSet> open_sets(const Experiment& experiment, const Dataset& data) {
  std::vector<EvaluationSet> sets;
  if (!experiment.evaluate) return sets;
  check_evaluation(experiment);
  const RandomKey key{static_cast<std::uint64_t>(experiment.seed)};
  for (const EvaluationSetConfig& config : experiment.evaluation.sets) sets.push_back(open_set(config, data, key));
  return sets;
}

std::vector<EvaluatedSet> evaluate_sets(const EvaluationConfig& config, const std::vector<EvaluationSet>& sets,
                                        Trainer& trainer) {
  std::vector<std::vector<ComparedPair>> compared;
  for (const EvaluationSet& set : sets) compared.push_back(embed_and_compare(config, set, trainer));
  std::vector<EvaluatedSet> results;
  if (trainer.rank().index != 0 || !trainer.rank().device.has_data()) return results;
  const auto threshold_of_set = [&](const std::string& name) {
    const auto found =
        std::find_if(sets.begin(), sets.end(), [&](const EvaluationSet& set) { return set.name == name; });
    return best_threshold(compared[static_cast<std::size_t>(found - sets.begin())]);
  };
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::string& from = sets[i].threshold_from;
    const std::int64_t genuine = genuine_among(sets[i].pairs);
    results.push_back(
        {.name = sets[i].name,
         .threshold_from = from,
         .verification = from.empty() ? verify(compared[i]) : verify_at(threshold_of_set(from), compared[i]),
         .genuine = genuine,
         .impostors = static_cast<std::int64_t>(sets[i].pairs.size()) - genuine,
         .best_threshold = best_threshold(compared[i]),
         .roc = roc_curve(compared[i])});
  }
  return results;
}

}  // namespace heddle
