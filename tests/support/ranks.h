// Ranks for tests of communication, and values whose sums depend on their order.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parallel/world.h"
#include "tests/support/devices.h"

namespace heddle::test {

/// Ranks with one computing thread each. On plan they count what ranks of the tested backend hold.
inline WorldOptions ranks(const Mesh& mesh, const std::string& backend = tested_backend()) {
  WorldOptions options;
  options.mesh = mesh;
  options.backend = backend;
  options.backend_options = {.threads = 1, .planned = tested_backend()};
  options.timeout = std::chrono::seconds(60);
  return options;
}

/// Data-parallel ranks.
inline WorldOptions ranks(int count, const std::string& backend = tested_backend()) {
  return ranks(Mesh(count), backend);
}

/// Values whose sums depend on their order.
inline double value(int rank, std::int64_t i) {
  return std::sin(1.0 + 17.0 * rank + 3.0 * static_cast<double>(i)) * 1e3;
}

template <class T>
std::vector<T> values(int rank, std::int64_t count) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<T>(static_cast<float>(value(rank, i))));
  return result;
}

/// The tensor [rows, columns] of f32 of a rank.
inline Tensor rows_of(Rank& rank, std::int64_t rows, std::int64_t columns) {
  return Tensor::from_host(rank.device, {rows, columns}, values<float>(rank.index, rows * columns));
}

/// The tensor [count] of f32.
inline Tensor zeros(Rank& rank, std::int64_t count) {
  return Tensor::zeros(rank.device, {count}, DType::f32);
}

inline Tensor numbers(Rank& rank, std::vector<std::int64_t> content) {
  return Tensor::from_host(rank.device, {static_cast<std::int64_t>(content.size())}, content);
}

}  // namespace heddle::test
