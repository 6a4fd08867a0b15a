#include "experiments/training/evaluation/evaluation_set.h"

#include <algorithm>
#include <map>

#include "experiments/training/evaluation/embed.h"
#include "experiments/training/evaluation/files/labelled_file.h"
#include "experiments/training/evaluation/files/pair_file.h"
#include "experiments/training/evaluation/files/template_file.h"
#include "experiments/training/evaluation/protocol/nearest.h"
#include "framework/description/printable.h"
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

void open_templates(const EvaluationSetConfig& config, const Preprocessing& preprocessing, EvaluationSet& set) {
  TemplateSet read = read_template_set(config.templates, config.list, config.path);
  set.pairs = std::move(read.pairs);
  set.templates = std::move(read.images);
  set.template_count = read.templates;
  set.images = images_of_files(std::move(read.files), preprocessing);
}

void open_identification(const EvaluationSetConfig& config, const Preprocessing& preprocessing, EvaluationSet& set) {
  IdentificationSet read = read_identification_set(config.gallery, config.probes, config.distractors, config.path);
  set.labels = std::move(read.labels);
  set.gallery = read.gallery;
  set.images = images_of_files(std::move(read.files), preprocessing);
}

/// InputError unless each of two folds can have a pair of each kind.
void check_pairs(const EvaluationSet& set) {
  const std::int64_t genuine = genuine_among(set.pairs);
  const std::int64_t impostors = static_cast<std::int64_t>(set.pairs.size()) - genuine;
  if (genuine < 2 || impostors < 2)
    fail<InputError>("expected at least 2 pairs of one person and 2 of two, got {} and {}", genuine, impostors);
}

EvaluationSet open_set(const EvaluationSetConfig& config, const Dataset& data, RandomKey key) {
  EvaluationSet set{.name = config.name, .threshold_from = config.threshold_from};
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
    case EvaluationSetType::templates:
      open_templates(config, data.preprocessing(), set);
      break;
    case EvaluationSetType::identification:
      open_identification(config, data.preprocessing(), set);
      return set;
  }
  check_pairs(set);
  return set;
}

std::vector<ComparedPair> compared_pairs(const EvaluationSet& set, std::vector<float> embeddings) {
  if (set.templates.empty()) return compare(UnitRows(embeddings, static_cast<std::size_t>(set.images.size)), set.pairs);
  const auto dimension = static_cast<std::int64_t>(embeddings.size()) / set.images.size;
  embeddings = template_embeddings(embeddings, dimension, set.templates, set.template_count);
  return compare(UnitRows(embeddings, static_cast<std::size_t>(set.template_count)), set.pairs);
}

Identification identified_probes(const EvaluationSet& set, std::span<const float> embeddings, Device& device) {
  const auto gallery = static_cast<std::size_t>(set.gallery.value());
  const std::size_t dimension = embeddings.size() / set.labels.size();
  const std::span<const std::int64_t> labels = set.labels;
  return identify({embeddings.first(gallery * dimension), labels.first(gallery)},
                  {embeddings.subspan(gallery * dimension), labels.subspan(gallery)}, device);
}

/// Verifies at the best threshold of `threshold_pairs`; if it is null, each fold at the best threshold of the others.
VerifiedSet verified_set(const EvaluationSet& set, const std::vector<ComparedPair>& compared,
                         const std::vector<ComparedPair>* threshold_pairs) {
  const std::int64_t genuine = genuine_among(set.pairs);
  return {.verification =
              threshold_pairs == nullptr ? verify(compared) : verify_at(best_threshold(*threshold_pairs), compared),
          .threshold_from = set.threshold_from,
          .genuine = genuine,
          .impostors = static_cast<std::int64_t>(set.pairs.size()) - genuine,
          .best_threshold = best_threshold(compared),
          .roc = roc_curve(compared)};
}

}  // namespace

std::vector<EvaluationSet> open_sets(const Experiment& experiment, const Dataset& data) {
  std::vector<EvaluationSet> sets;
  if (!experiment.evaluate) return sets;
  check_evaluation(experiment);
  const RandomKey key{static_cast<std::uint64_t>(experiment.seed)};
  for (std::size_t i = 0; i < experiment.evaluation.sets.size(); ++i) {
    const EvaluationSetConfig& config = experiment.evaluation.sets[i];
    try {
      sets.push_back(open_set(config, data, key));
    } catch (const InputError& error) {
      fail<InputError>("evaluation.sets[{}] {}: {}", i, in_quotes(config.name), error.what());
    }
  }
  return sets;
}

std::vector<EvaluatedSet> evaluate_sets(const EvaluationConfig& config, const std::vector<EvaluationSet>& sets,
                                        Trainer& trainer) {
  Device& device = trainer.rank().device;
  const bool leads = trainer.rank().index == 0;
  const bool has_results = leads && device.has_data();
  std::map<std::string, std::vector<ComparedPair>> compared;
  std::vector<EvaluatedSet> results;
  const auto embed_and_compare = [&] {
    for (const EvaluationSet& set : sets) {
      std::vector<float> embeddings = embed_images(config, set.images, trainer);
      if (trainer.has_broken_image()) return;
      if (leads && !device.has_data() && set.gallery)
        plan_nearest_rows(device, *set.gallery, std::ssize(set.labels) - *set.gallery,
                          embedding_size(*trainer.plan().model));
      if (!has_results) continue;
      results.push_back({.name = set.name});
      if (set.gallery)
        results.back().identified = identified_probes(set, embeddings, device);
      else
        compared[set.name] = compared_pairs(set, std::move(embeddings));
    }
  };
  if (!sets.empty()) trainer.with_averages(embed_and_compare);
  if (trainer.has_broken_image()) return {};
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].identified) continue;
    const std::string& from = sets[i].threshold_from;
    results[i].verified = verified_set(sets[i], compared[sets[i].name], from.empty() ? nullptr : &compared.at(from));
  }
  return results;
}

}  // namespace heddle
