// The commands of the command line. Results go to `out`, notes and progress to `err`; wrong input is an InputError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "experiments/results/progress.h"
#include "parallel/pipeline/passes.h"
#include "parallel/transports/processes/processes.h"

namespace heddle {

/// The streams of one call of the program.
struct Console {
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;  // the terminal of err
  /// Ends the program although some of its threads never end. Set by main, which alone may exit.
  std::function<void(int code)> end_at_once = [](int) {};
  Terminal out_terminal{};
};

struct RunCommand {
  std::filesystem::path file;
  std::vector<std::string> sets;  // a.b=json
  std::filesystem::path out;      // empty: results/NAME
  bool json = false;
  bool resume = false;
  bool fresh_head = false;  // when resuming
};

/// Trains every variant of a file, on the processes of a job if there is one. Returns the exit code: 0, or that of the
/// first variant that ended early.
int run_command(const RunCommand& command, const Console& console, Processes* job = nullptr);

struct EvalCommand {
  std::filesystem::path checkpoint;  // a folder step-..., one of those, or a results folder
  std::vector<std::string> sets;     // a.b=json
  bool json = false;
  std::filesystem::path out;  // a folder for evaluation.json and roc.csv; empty: they are not written
};
/// Evaluates the sets of a checkpoint's experiment by its weights, on the processes of a job if there is one.
void eval_command(const EvalCommand& command, const Console& console, Processes* job = nullptr);

struct PlanCommand {
  std::filesystem::path file;
  std::vector<std::string> sets;
  bool json = false;
  std::string maximise;       // a dotted path; empty: nothing is searched
  std::string budget;         // of each rank in a search; empty: each variant's memory_budget
  std::filesystem::path out;  // results folder; empty: none is written
};
/// Plans the variants of a file. A search prints the plan of each variant with the largest value of a field that fits.
/// Returns 3 if no value fits for one of them.
int plan_command(const PlanCommand& command, const Console& console);

struct ExplainCommand {
  std::filesystem::path file;
  std::vector<std::string> sets;
  bool json = false;
  bool automatic = false;  // the planner's own choice in place of the file's placements
};
/// Prints the model of each variant as a table: the placements of its layers and the communication between them.
void explain_command(const ExplainCommand& command, const Console& console);

struct ScheduleCommand {
  std::string name;            // of schedule_types()
  std::filesystem::path file;  // or a CSV file
  bool search = false;         // or the best of all
  std::optional<std::int64_t> stages;
  std::optional<std::int64_t> micro_batches;
  std::optional<std::int64_t> chunks;  // none: the least that the schedule takes; in a search the most, none: 4
  std::optional<std::int64_t> most_micro_batches;  // a search only; none: micro_batches
  std::optional<double> memory;                    // of a search
  std::string costs = "1,1,1,0";                   // F,I,W,c
  Recompute recompute = Recompute::never;
  bool csv = false;
  bool json = false;
  std::filesystem::path svg;
};
/// Simulates and draws one pipeline schedule, or prints its CSV; with a search, those of the best one.
void schedule_command(const ScheduleCommand& command, const Console& console);

void validate_command(const std::vector<std::filesystem::path>& files, const std::vector<std::string>& sets,
                      const Console& console);
void schema_command(const Console& console);
/// Explains a dotted path of the experiment, or without a path its root.
void help_command(const std::string& path, const Console& console);
/// Prints the names that an experiment may use: those of one kind, or all.
void list_command(const std::string& kind, const Console& console);
struct BenchCommand {
  std::string name;               // empty: all
  std::string protocol;           // of head: plsc; empty: none
  std::vector<std::string> sets;  // for a protocol's experiment
  std::int64_t runs = 5;          // of a protocol
  std::int64_t threads = 0;       // 0: one a core
  bool json = false;
};
/// Measures operations and training steps against this machine's limits.
/// In a job, `collectives` runs among its processes.
void bench_command(const BenchCommand& command, const Console& console, Processes* job = nullptr);
/// Makes the notebook of a results folder.
void notebook_command(const std::filesystem::path& results, const Console& console);

}  // namespace heddle
