#include "experiments/program/bench/bench.h"

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "experiments/program/bench/peer.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/study_checks.h"
#include "experiments/training/experiment.h"
#include "framework/error.h"

namespace heddle {

namespace {

struct BenchCommand {
  std::string name;               // empty: all
  std::string protocol;           // for head: plsc; empty: none
  std::vector<std::string> sets;  // for a protocol's experiment
  std::int64_t runs = 5;          // runs of a protocol
  std::int64_t threads = 0;       // 0: one per core
  BenchPhotographs photographs;   // for data
  bool is_long = false;
  std::string peer;               // a Python with torch; empty: none
  std::filesystem::path earlier;  // what --json printed; empty: none
  bool json = false;
};

constexpr std::array<std::string_view, 4> with_peer{"ops", "steps", "head", "gpu"};

Experiment plsc(const std::vector<std::string>& sets) {
  return checked(read_study_text<Experiment>(plsc_experiment(), "the protocol plsc", sets)).variants[0].root;
}

/// Measures operations, training steps and the reading of images against this machine's limits. In a job, `collectives`
/// runs among its processes.
void bench_command(const BenchCommand& command, const Console& console, Job* job) {
  BenchSettings settings{.threads = static_cast<int>(command.threads),
                         .photographs = command.photographs,
                         .is_long = command.is_long,
                         .job = job};
  if (settings.threads < 1) settings.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  settings.on_row = [&](const BenchRow& row) {
    console.err << fmt::format("{}: {:.4g} {}\n", row.name, row.value, row.unit) << std::flush;
  };
  settings.on_progress = [&](const std::string& words) { console.err << words << '\n' << std::flush; };
  if (!command.protocol.empty() && command.name != "head")
    fail<InputError>("--protocol {} is an option of head: heddle bench head --protocol {}", command.protocol,
                     command.protocol);
  if (command.is_long && command.name != "head" && command.name != "search")
    fail<InputError>("--long is an option of head and search: heddle bench head --long");
  if (!command.photographs.folder.empty() && command.name != "data")
    fail<InputError>("--images is an option of data: heddle bench data --images {}", command.photographs.folder);
  if (!command.peer.empty() && !command.name.empty() &&
      std::find(with_peer.begin(), with_peer.end(), command.name) == with_peer.end())
    fail<InputError>("--peer is an option of ops, steps, head and gpu: heddle bench steps --peer {}", command.peer);
  std::optional<std::vector<BenchRow>> earlier;
  if (!command.earlier.empty()) earlier = read_bench_json(command.earlier);
  std::optional<Peer> peer;
  if (!command.peer.empty()) {
    settings.peer = &peer.emplace(command.peer);
    settings.on_progress(peer->version() + ": what it does in the same time is in the column `peer`");
  }
  std::vector<BenchRow> rows = command.protocol.empty() ? run_bench(command.name, settings)
                                                        : bench_plsc(plsc(command.sets), command.runs, settings);
  if (earlier) compare_with(rows, *earlier);
  console.out << (command.json ? bench_json(rows) : bench_table(rows)) << std::flush;
}

}  // namespace

void add_bench(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<BenchCommand>();
  app.add_option("NAME", command->name,
                 fmt::format("{}; without a name, all except gpu", fmt::join(bench_names(), " or ")));
  CLI::Option* const protocol =
      app.add_option("--protocol", command->protocol,
                     "with head: measure the images/s of a training recipe by PLSC's protocol (plsc) instead of single "
                     "steps; --set scales it down for a small machine")
          ->check(CLI::IsMember({"plsc"}));
  add_set_option(app, command->sets).description("override one key of the protocol's experiment")->needs(protocol);
  take_integers(app.add_option("--runs", command->runs, "the number of runs of the protocol (default: 5)"), 1, 1000)
      ->needs(protocol);
  take_integers(app.add_option("--threads", command->threads, "computing threads (default: one per core)"), 1, 1024)
      ->excludes(protocol);
  CLI::Option* const images = app.add_option("--images", command->photographs.folder,
                                             "with data: also read the JPEG files in this folder and its subfolders");
  take_integers(
      app.add_option("--crop", command->photographs.crop,
                     "the side of the square that is cut out of the centre of each image (default: the whole image)"),
      0, 65'535)
      ->needs(images);
  take_integers(
      app.add_option("--size", command->photographs.size, "the side to which each image is resized (default: 112)"), 1,
      4096)
      ->needs(images);
  app.add_flag("--long", command->is_long,
               "with head: the sizes that are usually published, up to 10 million classes, which take a quarter of an "
               "hour or more; with search: galleries of 10 million rows")
      ->excludes(protocol);
  app.add_option(
         "--peer", command->peer,
         "with ops, steps, head and gpu: also do the same work in PyTorch, by this Python that can import torch "
         "(e.g. python3), and fill the column `peer`")
      ->type_name("PYTHON")
      ->excludes(protocol);
  app.add_option("--compare", command->earlier,
                 "what an earlier `bench --json` printed: two more columns have its values and the ratios to them")
      ->type_name("FILE.json");
  app.add_flag("--json", command->json, "print the rows as JSON instead of the table");
  app.callback([&call, command] {
    bench_command(*command, call.console, command->name == "collectives" ? call.join() : nullptr);
  });
}

}  // namespace heddle
