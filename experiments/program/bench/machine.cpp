#include "experiments/program/bench/machine.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "framework/ops/linear_algebra.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void on_threads(int threads, const std::function<void(int)>& body) {
  std::vector<std::jthread> team;
  for (int i = 0; i < threads; ++i) team.emplace_back(body, i);
}

constexpr int chains = 12;  // independent sums, enough to hide the latency of a multiply-add
constexpr long fma_rounds = 20'000'000;

using Vector256 = float __attribute__((vector_size(32)));
using Vector512 = float __attribute__((vector_size(64)));

// The multiply-adds of `fma_rounds` rounds. The result is returned so that the compiler keeps them.
template <class Vector>
[[gnu::always_inline]] inline float multiply_add() {
  Vector sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = Vector{} + static_cast<float>(i);
  const Vector factor = Vector{} + 0.5F;
  for (long round = 0; round < fma_rounds; ++round) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = sum * factor + factor;
  }
  Vector total{};
  for (const Vector& sum : sums) total += sum;
  return total[0];
}

float multiply_add_256() {
  return multiply_add<Vector256>();
}
#ifdef __clang__  // it knows no target prefer-vector-width, and uses the types' own width
[[gnu::target("avx512f")]]
#else
[[gnu::target("avx512f,prefer-vector-width=512")]]
#endif
float multiply_add_512() {
  return multiply_add<Vector512>();
}

}  // namespace

double min_seconds(const std::function<void()>& call, double budget_seconds) {
  call();
  double shortest = 1e300;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 3 || seconds_since(begin) < budget_seconds; ++i) {
    const Clock::time_point start = Clock::now();
    call();
    shortest = std::min(shortest, seconds_since(start));
  }
  return shortest;
}

double min_seconds(const Device& device, const std::function<void()>& call, double budget_seconds) {
  constexpr int together = 10;
  const auto calls = [&] {
    for (int i = 0; i < together; ++i) call();
    device.backend().settle();
  };
  return min_seconds(calls, budget_seconds) / together;
}

double peak_flops(int threads) {
  const bool is_wide = __builtin_cpu_supports("avx512f") != 0;
  std::vector<float> results(static_cast<std::size_t>(threads));
  const double seconds = min_seconds([&] {
    on_threads(threads, [&](int i) {
      results[static_cast<std::size_t>(i)] = is_wide ? multiply_add_512() : multiply_add_256();
    });
  });
  return 2.0 * chains * fma_rounds * (is_wide ? 16 : 8) * threads / seconds;
}

double peak_bandwidth(int threads) {
  constexpr std::size_t bytes = std::size_t{512} << 20;  // larger than the largest caches of servers
  const std::unique_ptr<std::byte[]> from(new std::byte[bytes]());
  const std::unique_ptr<std::byte[]> to(new std::byte[bytes]());
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  const double seconds = min_seconds([&] {
    on_threads(threads, [&](int i) {
      const std::size_t begin = part * static_cast<std::size_t>(i);
      std::memcpy(to.get() + begin, from.get() + begin, part);
    });
  });
  return 2.0 * static_cast<double>(part * static_cast<std::size_t>(threads)) / seconds;
}

double product_rate(Device& device, DType dtype) {
  constexpr std::int64_t side = 1024;
  const Tensor a = Tensor::full(device, {side, side}, dtype, 1);
  Tensor c = Tensor::empty(device, {side, side}, dtype);
  return 2.0 * side * side * side / min_seconds([&] { gemm(a, false, a, true, 1, 0, c); });
}

std::int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (std::int64_t kibibytes = 0; name == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

}  // namespace heddle
