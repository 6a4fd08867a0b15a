// `heddle bench`: the limits of the machine and the performance of the operations, measured in one run. Each figure has
// the machine's own limit beside it, so that rows from different machines can be compared by their share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

class Job;
class Peer;
struct Experiment;

struct BenchRow {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> limit{};    // the machine's limit, in the same unit
  std::optional<double> share{};    // value / limit, unless the benchmark's file defines another share
  std::optional<double> peer{};     // the same work in PyTorch, if it was asked for
  std::optional<double> earlier{};  // this row's value in an earlier run, if that was given
};

/// The photographs that `data` reads besides the images that it makes.
struct BenchPhotographs {
  std::string folder{};     // empty: none
  std::int64_t crop = 0;    // side of the centre's square; 0: all of the photograph
  std::int64_t size = 112;  // height and width of what the network takes
};

struct BenchSettings {
  int threads = 1;
  BenchPhotographs photographs{};
  bool is_long = false;        // head: the sizes that are usually published, and more of them; search: ten million rows
  const Peer* peer = nullptr;  // ops, steps, head and gpu: does the same work after each row that it can
  /// Reports in words what is measured next, where that takes long.
  std::function<void(const std::string&)> on_progress = [](const std::string&) {};
  /// The processes of `collectives`; without a job its ranks are threads of this process.
  Job* job = nullptr;
  std::function<void(const BenchRow&)> on_row = [](const BenchRow&) {};
};

/// The rows of a benchmark, each reported as soon as it is measured.
class BenchRows {
 public:
  explicit BenchRows(const BenchSettings& settings) : on_row_(settings.on_row) {}

  /// A row with a limit has a share: value / limit, unless it says another.
  void add(BenchRow row);
  std::vector<BenchRow> take() { return std::move(rows_); }

 private:
  const std::function<void(const BenchRow&)>& on_row_;
  std::vector<BenchRow> rows_;
};

/// The bytes of one GB.
inline constexpr double giga = 1e9;

/// Names of the benchmarks, in the order in which they run.
std::span<const std::string_view> bench_names();
/// One benchmark, or all but the GPU's for an empty name; InputError lists the known names.
std::vector<BenchRow> run_bench(std::string_view name, const BenchSettings& settings);

/// The seconds of the same work in PyTorch (Peer::seconds), if it was asked for.
std::optional<double> peer_seconds(const BenchSettings& settings, const std::vector<std::string>& work);

/// The rows as a table. Where a row has an earlier value, two more columns have it and the ratio value / earlier.
std::string bench_table(std::span<const BenchRow> rows);
/// {"rows": [{"name", "value", "unit", "limit", "share", "peer", "earlier", "ratio"}]}, null where there is none; ends
/// with a newline.
std::string bench_json(std::span<const BenchRow> rows);
/// The rows of a file that bench_json wrote, without limits and peers. InputError if it is not such a file.
std::vector<BenchRow> read_bench_json(const std::filesystem::path& file);
/// Gives the rows the values that rows of the same name and unit have in `earlier`.
void compare_with(std::vector<BenchRow>& rows, std::span<const BenchRow> earlier);

// The benchmarks, one file each.
std::vector<BenchRow> bench_ops(const BenchSettings& settings);
std::vector<BenchRow> bench_collectives(const BenchSettings& settings);
std::vector<BenchRow> bench_steps(const BenchSettings& settings);
std::vector<BenchRow> bench_pipeline(const BenchSettings& settings);
std::vector<BenchRow> bench_head(const BenchSettings& settings);
std::vector<BenchRow> bench_data(const BenchSettings& settings);
std::vector<BenchRow> bench_comparisons(const BenchSettings& settings);
std::vector<BenchRow> bench_search(const BenchSettings& settings);
/// The benchmark of the first GPU; InputError without a GPU.
std::vector<BenchRow> bench_gpu(const BenchSettings& settings);

/// The default experiment of PLSC's protocol: its recipe (R50, 112 x 112, 128 images per rank, a tenth of the 93,431
/// classes of MS1MV3 in each step) on two ranks.
std::string_view plsc_experiment();
/// Runs an experiment several times: the images per second of each run in the middle half of its steps, the median run,
/// and the memory of the fullest rank. RankFailed with its error if a run ends early.
std::vector<BenchRow> bench_plsc(const Experiment& experiment, std::int64_t runs, const BenchSettings& settings);

}  // namespace heddle
