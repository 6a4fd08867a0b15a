// Kernels of a training step, as the cpu computes them: in every type and size, however their memory is aligned.
#include <doctest/doctest.h>

#include "tests/support/compare/agreement.h"

namespace heddle::test {

TEST_SUITE_BEGIN(beside_cpu);

namespace {

/// body(name, count, dtype, skipped) for all of them.
template <class F>
void for_sizes(F body) {
  for (const std::int64_t count : {0, 1, 5, 1003, 20000})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (const std::int64_t skipped : {0, 1})
        body(fmt::format("{} {} behind {}", name_of(dtype), count, skipped), count, dtype, skipped);
}

TEST_CASE("Fills and dropout draw the cpu's numbers, in windows of whole and of broken blocks") {
  const DrawKey key{.key = {3}, .purpose = Purpose::test, .step = 1, .layer = 4};
  for (const DrawWindow& window :
       {DrawWindow(0), DrawWindow(8), DrawWindow(3), DrawWindow(4, 12, 20), DrawWindow(4, 12, 21), DrawWindow(2, 5, 6),
        DrawWindow(0, 12, 30), DrawWindow((std::int64_t{1} << 34) - 400, 400, 4000)})
    for_sizes([&](const std::string& name, std::int64_t count, DType dtype, std::int64_t skipped) {
      check_agreement(name, rounding_of(dtype), [&](Device& device) {
        Tensor normal = room(device, {count}, dtype, skipped);
        Tensor uniform = room(device, {count}, dtype, skipped);
        device.backend().training().fill_normal(normal, key, window, 0.5, 2);
        device.backend().training().fill_uniform(uniform, key, window, -1, 3);
        return std::vector<Tensor>{normal, uniform};
      });
      check_agreement(name, 0, [&](Device& device) {
        Tensor y = room(device, {count}, dtype, skipped);
        device.backend().training().dropout(drawn(device, {count}, dtype, 1, skipped), key, window, 0.3, y);
        return std::vector<Tensor>{y};
      });
    });
}

TEST_CASE("Clamped elements and sums of squares are the cpu's") {
  for_sizes([](const std::string& name, std::int64_t count, DType dtype, std::int64_t skipped) {
    check_agreement(name, 1e-13, [&](Device& device) {
      Tensor x = drawn(device, {count}, dtype, 1, skipped);
      Tensor norm = Tensor::full(device, {1}, DType::f64, 2);
      device.backend().training().add_squared_norm(x, norm);
      device.backend().training().add_squared_norm(x, norm);
      device.backend().training().clamp(x, 0.7);
      return std::vector<Tensor>{x, norm};
    });
  });
}

TEST_CASE("Squares of many elements, which many blocks share, are all summed") {
  Device device = make_device();
  Tensor norm = Tensor::zeros(device, {1}, DType::f64);
  device.backend().training().add_squared_norm(Tensor::full(device, {1000001}, DType::f32, 3), norm);
  CHECK(norm.item() == 9000009);
}

TEST_CASE("Optimizers take the cpu's steps, with momentum and without") {
  for_sizes([](const std::string& name, std::int64_t count, DType dtype, std::int64_t skipped) {
    const DType type = compute_dtype(dtype);
    for (const bool is_nesterov : {false, true})
      check_agreement(name + " sgd", rounding_of(dtype), [&](Device& device) {
        SgdStep step{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = is_nesterov};
        const Tensor gradient = drawn(device, {count}, dtype, 1, skipped);
        Tensor weight = drawn(device, {count}, dtype, 2);
        Tensor velocity = drawn(device, {count}, type, 3);
        const TrainingKernels& kernels = device.backend().training();
        for (int i = 0; i < 2; ++i) kernels.sgd(std::vector<SgdWeight>{{step, gradient, weight, velocity}});
        step.momentum = 0;
        kernels.sgd(std::vector<SgdWeight>{{step, gradient, weight}});
        return std::vector<Tensor>{weight, velocity};
      });
    check_agreement(name + " adamw", rounding_of(dtype), [&](Device& device) {
      const Tensor gradient = drawn(device, {count}, dtype, 1);
      Tensor weight = drawn(device, {count}, dtype, 2, skipped);
      Tensor mean = room(device, {count}, type);
      Tensor square = room(device, {count}, type, skipped);
      for (const std::int64_t n : {1, 2})
        device.backend().training().adamw(std::vector<AdamWWeight>{
            {{.learning_rate = 0.02, .weight_decay = 0.1, .step = n}, gradient, weight, mean, square}});
      return std::vector<Tensor>{weight, mean, square};
    });
  });
}

TEST_CASE("Optimizers step many weights of several sizes and types at once, each by its own rate") {
  constexpr std::array types{DType::f32, DType::bf16, DType::f64};
  const auto drawn_weights = [&](Device& device) {
    std::vector<AdamWWeight> weights;
    for (std::uint32_t i = 0; i < 400; ++i) {
      const DType dtype = types[i % types.size()];
      const std::int64_t count = i == 6 || i == 12 ? 3000001 : i * i % 701;  // two need more blocks than they get
      const AdamWStep step{.learning_rate = 0.01 * (1 + i % 5), .weight_decay = 0.1, .step = 1 + i % 3};
      weights.push_back({step, drawn(device, {count}, dtype, 4 * i, i % 2), drawn(device, {count}, dtype, 4 * i + 1),
                         room(device, {count}, compute_dtype(dtype)), room(device, {count}, compute_dtype(dtype))});
    }
    return weights;
  };
  for (const DType dtype : types) {
    check_agreement(fmt::format("{} adamw", name_of(dtype)), rounding_of(dtype), [&](Device& device) {
      const std::vector<AdamWWeight> weights = drawn_weights(device);
      device.backend().training().adamw(weights);
      std::vector<Tensor> changed;
      for (const AdamWWeight& w : weights)
        if (w.weight.dtype() == dtype) changed.insert(changed.end(), {w.weight, w.mean, w.square});
      return changed;
    });
    check_agreement(fmt::format("{} sgd", name_of(dtype)), rounding_of(dtype), [&](Device& device) {
      std::vector<SgdWeight> weights;
      for (const AdamWWeight& w : drawn_weights(device)) {
        const bool has_momentum = weights.size() % 4 > 0;
        weights.push_back({{.learning_rate = w.step.learning_rate, .momentum = has_momentum ? 0.9 : 0},
                           w.gradient,
                           w.weight,
                           has_momentum ? w.mean : Tensor()});
      }
      device.backend().training().sgd(weights);
      std::vector<Tensor> changed;
      for (const SgdWeight& w : weights) {
        if (w.weight.dtype() != dtype) continue;
        changed.push_back(w.weight);
        if (w.velocity.defined()) changed.push_back(w.velocity);
      }
      return changed;
    });
  }
}

TEST_CASE("Moments of many channels merge as the cpu's do, and groups of none leave running statistics") {
  for (const std::int64_t channels : {1, 600})
    for (const std::int64_t rows : {0, 1, 9})
      for (const DType dtype : {DType::f64, DType::f32})
        check_agreement(fmt::format("{} {} channels, {} groups", name_of(dtype), channels, rows), rounding_of(dtype),
                        [&](Device& device) {
                          std::vector<double> values = normal_values(rows * (2 * channels + 1), 5);
                          for (std::int64_t g = 0; g < rows; ++g)
                            values[static_cast<std::size_t>(g * (2 * channels + 1))] = static_cast<double>(g % 4);
                          const Tensor groups = tensor(device, {rows, 2 * channels + 1}, values, dtype);
                          Tensor merged = Tensor::empty(device, {2 * channels + 1}, dtype);
                          Tensor means = drawn(device, {channels}, dtype, 1);
                          Tensor variances = drawn(device, {channels}, dtype, 2);
                          device.backend().normalization().combine_moments(groups, merged);
                          device.backend().normalization().merge_moments(groups, 0.1, means, variances);
                          Tensor inverse = Tensor::empty_like(variances);
                          device.backend().normalization().inverse_deviation(variances, 0.5, 10, inverse);
                          return std::vector<Tensor>{merged, means, variances, inverse};
                        });
}

}  // namespace
TEST_SUITE_END();

}  // namespace heddle::test
