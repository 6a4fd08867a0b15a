// Devices for tests, and tensors of written or drawn values on them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tensors/device.h"
#include "framework/tensors/tensor.h"

namespace heddle::test {

/// The backend with data that is tested: HEDDLE_TEST_BACKEND, or cpu.
inline std::string tested_backend() {
  const char* const name = std::getenv("HEDDLE_TEST_BACKEND");
  return name != nullptr ? name : "cpu";
}

/// The suite of tests that compare the tested backend's kernels with the cpu's.
inline constexpr const char* beside_cpu = "the tested backend beside the cpu";

/// The suite of tests that take tens of seconds under a sanitizer and only cover code that shorter tests cover, too.
inline constexpr const char* long_under_sanitizers = "long under sanitizers";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

/// The sizes, layouts or repetitions of a test: all, or fewer under a sanitizer, where each takes ten times as long and
/// most run the same code.
template <typename T>
constexpr T fewer_if_sanitized(T all, T fewer) {
  return is_sanitized ? fewer : all;
}

/// A rank's device with two threads: enough for the order of sums to matter. On plan, it counts what the tested backend
/// holds.
inline Device make_device(std::string_view backend = tested_backend(), std::optional<std::int64_t> budget = {}) {
  constexpr int threads = 2;
  return Device(make_backend(backend, {.threads = threads, .planned = tested_backend()}), 0, budget);
}

/// A floating tensor of these values, rounded to its type.
inline Tensor tensor(Device& device, const Shape& shape, const std::vector<double>& values, DType dtype = DType::f64) {
  return visit_floating(dtype, "tensor", [&]<class T>(T) {
    std::vector<T> narrow;
    for (const double value : values) narrow.push_back(static_cast<T>(static_cast<Compute<T>>(value)));
    return Tensor::from_host(device, shape, narrow);
  });
}

inline Tensor integers(Device& device, const std::vector<std::int64_t>& values) {
  return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())}, values);
}

using Values = std::vector<double>;

/// Standard normal values, the same for the same seed.
inline std::vector<double> normal_values(std::int64_t count, std::uint64_t seed) {
  RandomStream stream({seed}, Purpose::test, 0, 0);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = stream.normal();
  return values;
}

}  // namespace heddle::test
