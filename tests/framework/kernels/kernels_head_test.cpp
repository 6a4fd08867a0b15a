// The head's kernels against the margin softmax's definition.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "framework/scalars/scalar.h"
#include "tests/support/compare/difference.h"
#include "tests/support/devices.h"

namespace heddle::test::kernels_head_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The loss of the margin softmax and its gradient by the cosines, by definition and in f64.
struct Reference {
  std::vector<double> loss;
  std::vector<double> gradient;
};
Reference reference(const MarginConfig& margin, const std::vector<double>& cosines, std::int64_t classes,
                    const std::vector<std::int64_t>& labels) {
  Reference result;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    std::vector<double> z(cosines.begin() + static_cast<std::ptrdiff_t>(row) * classes,
                          cosines.begin() + static_cast<std::ptrdiff_t>(row + 1) * classes);
    const auto target = static_cast<std::size_t>(labels[row]);
    const TargetValue<double> value = margin_target(margin, z[target]);
    std::vector<double> slope(z.size(), 1);
    for (std::size_t j = 0; j < z.size(); ++j)
      if (margin.combined.filter > 0 && z[j] > margin.combined.filter) z[j] = slope[j] = 0;
    z[target] = value.phi;
    slope[target] = value.slope;
    double sum = 0;
    for (double& logit : z) sum += std::exp(logit *= margin.scale);
    result.loss.push_back(std::log(sum) - z[target]);
    for (std::size_t j = 0; j < z.size(); ++j) {
      const double share = std::exp(z[j]) / sum - (j == target ? 1 : 0);
      result.gradient.push_back(share * margin.scale * slope[j]);
    }
  }
  return result;
}

TEST_CASE("Head kernels over uneven class shards give the margin softmax's loss and gradient") {
  Device device = make_device();
  const HeadKernels& head = device.backend().head();
  constexpr std::int64_t classes = 700;
  const std::vector<std::int64_t> labels{0, 699, 300, 299, 17};
  const auto batch = static_cast<std::int64_t>(labels.size());
  std::vector<double> cosines = normal_values(batch * classes, 4);
  for (double& cosine : cosines) cosine = std::tanh(cosine / 4);
  const Tensor label = integers(device, labels);
  const std::vector<std::vector<std::int64_t>> shardings{{0, 700}, {0, 300, 700}, {0, 1, 1, 699, 700}};
  for (const MarginConfig& margin :
       {MarginConfig{.scale = 16}, MarginConfig{.scale = 16, .combined = {.m2 = 0.5}},
        MarginConfig{.scale = 16, .combined = {.m3 = 0.35}}, MarginConfig{.scale = 16, .combined = {.m1 = 1.35}},
        MarginConfig{.scale = 16, .combined = {.m2 = 0.5, .filter = 0.2}}})
    for (const DType dtype : {DType::f64, DType::f32})
      for (const auto& cuts : shardings) {
        const Reference expected = reference(margin, cosines, classes, labels);
        struct Shard {
          std::int64_t begin;
          Tensor logits, slope;
          HeadColumns columns;
        };
        std::vector<Shard> shards;
        std::vector<double> most(labels.size(), -infinity);
        std::vector<double> target(labels.size(), 0);
        std::vector<double> sum(labels.size(), 0);
        for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
          const std::int64_t width = cuts[s + 1] - cuts[s];
          // Twice the cosines and a scale of one half for each class.
          std::vector<double> part;
          for (std::int64_t row = 0; row < batch; ++row)
            for (std::int64_t j = cuts[s]; j < cuts[s + 1]; ++j)
              part.push_back(2 * cosines[static_cast<std::size_t>(row * classes + j)]);
          Tensor row_max = Tensor::empty(device, {batch}, dtype);
          Tensor target_logit = Tensor::zeros(device, {batch}, dtype);
          Shard shard{
              cuts[s],
              tensor(device, {batch, width}, part, dtype),
              Tensor::empty(device, {batch}, dtype),
              {.labels = label, .begin = cuts[s], .scale = Tensor::full(device, {width}, dtype, 0.5)},
          };
          head.margin_logits({margin}, shard.columns, shard.logits, target_logit, shard.slope, row_max);
          for (std::size_t row = 0; row < labels.size(); ++row) {
            most[row] = std::max(most[row], row_max.to_doubles()[row]);
            target[row] += target_logit.to_doubles()[row];
          }
          shards.push_back(std::move(shard));
        }
        const Tensor row_max = tensor(device, {batch}, most, dtype);
        for (const Shard& shard : shards) {
          Tensor sums = Tensor::empty(device, {batch}, DType::f64);
          head.exponential_sums({margin}, shard.columns, shard.logits, row_max, sums);
          for (std::size_t row = 0; row < labels.size(); ++row) sum[row] += sums.to_doubles()[row];
        }
        Tensor log_sums = Tensor::empty(device, {batch}, dtype);
        Tensor loss = Tensor::empty(device, {batch}, dtype);
        head.margin_loss(row_max, tensor(device, {batch}, sum), tensor(device, {batch}, target, dtype), log_sums, loss);
        const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
        CHECK(difference(loss.to_doubles(), expected.loss) < tolerance);
        // The second half of the rows counts for other numbers of samples.
        const std::vector<double> weights{1, 1, 0.5, 0, 3};
        const LossFactors factors{.mean_factor = 0.25, .row_weights = tensor(device, {batch}, weights, dtype)};
        const auto gradient_at = [&](std::int64_t row, std::int64_t j) {
          return 0.25 * weights[static_cast<std::size_t>(row)] *
                 expected.gradient[static_cast<std::size_t>(row * classes + j)];
        };
        for (Shard& shard : shards) {
          head.margin_gradient({margin}, shard.columns, log_sums, shard.slope, factors, shard.logits);
          std::vector<double> part;
          for (std::int64_t row = 0; row < batch; ++row)
            for (std::int64_t j = 0; j < shard.logits.shape()[1]; ++j)
              part.push_back(0.5 * gradient_at(row, shard.begin + j));
          CHECK(difference(shard.logits.to_doubles(), part) < tolerance);
          if (has_negative_map(margin)) continue;
          // The same from the products, with one row per class, and by the cosine.
          const std::int64_t width = shard.logits.shape()[1];
          std::vector<double> by_class;
          part.clear();
          for (std::int64_t j = shard.begin; j < shard.begin + width; ++j)
            for (std::int64_t row = 0; row < batch; ++row) {
              by_class.push_back(2 * cosines[static_cast<std::size_t>(row * classes + j)]);
              part.push_back(gradient_at(row, j));
            }
          Tensor products = tensor(device, {width, batch}, by_class, dtype);
          head.gradient_by_class({margin}, shard.columns, log_sums, factors, products, products);
          CHECK(difference(products.to_doubles(), part) < tolerance);
        }
      }
}

TEST_CASE("Head kernels refuse 16-bit logits") {
  Device device = make_device();
  Tensor logits = Tensor::zeros(device, {1, 2}, DType::bf16);
  Tensor sums = Tensor::zeros(device, {1}, DType::f64);
  CHECK_THROWS_WITH_AS(device.backend().head().exponential_sums({}, {}, logits, sums, sums),
                       "exponential_sums: expected f32 or f64 logits, got bf16", InputError);
}

}  // namespace
}  // namespace heddle::test::kernels_head_test
