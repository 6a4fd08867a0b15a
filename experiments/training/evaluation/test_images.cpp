#include "experiments/training/evaluation/test_images.h"

#include <algorithm>
#include <vector>

#include "experiments/training/evaluation/embed.h"
#include "experiments/training/evaluation/protocol/identification.h"

namespace heddle {

namespace {

std::vector<std::int64_t> labels_of(const Dataset& dataset, Split split) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) labels.push_back(dataset.label(split, i));
  return labels;
}

/// The rows of people whom the training knows, with their labels.
struct KnownRows {
  std::vector<float> values;
  std::vector<std::int64_t> labels;

  KnownRows(const std::vector<float>& all, const std::vector<std::int64_t>& all_labels, std::int64_t classes) {
    const std::size_t columns = all.size() / all_labels.size();
    for (std::size_t i = 0; i < all_labels.size(); ++i) {
      if (all_labels[i] >= classes) continue;
      const auto row = all.begin() + static_cast<std::ptrdiff_t>(i * columns);
      values.insert(values.end(), row, row + static_cast<std::ptrdiff_t>(columns));
      labels.push_back(all_labels[i]);
    }
  }
};

}  // namespace

void evaluate_test_images(Evaluation& evaluation, Trainer& trainer) {
  const Dataset& dataset = trainer.dataset();
  const Rank& rank = trainer.rank();
  const EvaluationConfig& config = trainer.experiment().evaluation;
  const std::vector<std::int64_t> labels = labels_of(dataset, Split::test);
  const bool identifies =
      std::any_of(labels.begin(), labels.end(), [&](std::int64_t label) { return label < dataset.classes(); });
  const auto embed = [&](Split split) { return embed_images(config, images_of(dataset, split), trainer); };
  std::vector<float> gallery;
  std::vector<float> probes;
  trainer.with_averages([&] {
    if (identifies) gallery = embed(Split::train);
    if (!trainer.has_broken_image()) probes = embed(Split::test);
  });
  if (trainer.has_broken_image() || rank.index != 0 || !rank.device.has_data()) return;
  if (identifies) {
    const std::vector<std::int64_t> gallery_labels = labels_of(dataset, Split::train);
    const KnownRows known(probes, labels, dataset.classes());
    evaluation.rank1 = rank1({gallery, gallery_labels}, {known.values, known.labels});
  }
  evaluation.verification = verify_drawn({probes, labels}, {.pairs = config.pairs}, rank.key);
}

}  // namespace heddle
