// Exact search for the ten nearest rows of a gallery for each of many probes. The limit is the rate of matrix products
// in f32, measured before each case; one probe is limited by the bandwidth of memory instead.
#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "experiments/data/parallel_for.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/bench/machine.h"
#include "experiments/training/evaluation/protocol/nearest.h"
#include "framework/error.h"
#include "framework/scalars/random.h"
#include "framework/tensors/device.h"

namespace heddle {

namespace {

constexpr std::int64_t probe_count = 1000;
constexpr std::int64_t nearest_count = 10;
constexpr std::int64_t drawn_at_a_time = 8192;

struct SearchCase {
  std::int64_t rows;
  std::int64_t features;

  std::int64_t bytes() const { return rows * features * static_cast<std::int64_t>(sizeof(float)); }
};

/// Rows of normal numbers from `first` on, each drawn by itself.
std::vector<float> draw_rows(std::int64_t first, std::int64_t count, std::int64_t features) {
  std::vector<float> values(static_cast<std::size_t>(count * features));
  parallel_for(count, [&](std::int64_t i) {
    RandomStream draws({3}, Purpose::evaluation_pairs, 0, static_cast<std::uint64_t>(first + i));
    for (std::int64_t k = 0; k < features; ++k)
      values[static_cast<std::size_t>(i * features + k)] = static_cast<float>(draws.normal());
  });
  return values;
}

RowTable drawn_gallery(const SearchCase& c, Device& device) {
  RowTable gallery(device, c.rows, c.features);
  for (std::int64_t begin = 0; begin < c.rows; begin += drawn_at_a_time)
    gallery.append(draw_rows(begin, std::min(drawn_at_a_time, c.rows - begin), c.features));
  return gallery;
}

double search_seconds(const RowTable& gallery, const UnitRows& probes) {
  const auto begin = std::chrono::steady_clock::now();
  nearest_rows(gallery, {}, probes, nearest_count);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void add_search_case(const SearchCase& c, int threads, Device& device, BenchRows& rows) {
  const RowTable gallery = drawn_gallery(c, device);
  const UnitRows probes(draw_rows(c.rows, probe_count, c.features), static_cast<std::size_t>(probe_count));
  const double limit = product_rate(device, DType::f32);
  const double seconds = search_seconds(gallery, probes);
  const auto millions = static_cast<double>(c.rows) / 1e6;
  rows.add({.name = fmt::format("{} probes in {}M rows, {} features", probe_count, millions, c.features),
            .value = seconds,
            .unit = "s"});
  rows.add({.name = "  its products",
            .value = 2.0 * static_cast<double>(c.rows * c.features * probe_count) / seconds / giga,
            .unit = "GFLOP/s",
            .limit = limit / giga});
  const UnitRows one(probes.values().first(probes.dimension()), 1);
  const double one_seconds = search_seconds(gallery, one);
  rows.add({.name = "  one probe", .value = one_seconds * 1e3, .unit = "ms"});
  rows.add({.name = "  the gallery as it is read",
            .value = static_cast<double>(c.bytes()) / one_seconds / giga,
            .unit = "GB/s",
            .limit = peak_bandwidth(threads) / giga});
}

}  // namespace

std::vector<BenchRow> bench_search(const BenchSettings& settings) {
  BenchRows rows(settings);
  std::vector<SearchCase> cases{{1'000'000, 256}, {1'000'000, 512}};
  if (settings.is_long) cases = {{10'000'000, 128}, {10'000'000, 256}};
  for (const SearchCase& c : cases) {
    // The probes, tiles and packed copies need less than this, too.
    constexpr std::int64_t others = std::int64_t{2} << 30;
    if (c.bytes() + others > available_memory()) {
      settings.on_progress(fmt::format("skipped: {} rows of {} features need {:.1f} GiB", c.rows, c.features,
                                       static_cast<double>(c.bytes() + others) / 0x1p30));
      continue;
    }
    // In a thread of its own, whose team ends with it.
    std::async(std::launch::async, [&] {
      Device device(make_backend("cpu", {.threads = settings.threads}));
      device.backend().enter_thread();
      omp_set_num_threads(settings.threads);
      add_search_case(c, settings.threads, device, rows);
    }).get();
  }
  return rows.take();
}

}  // namespace heddle
