#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <limits>
#include <map>
#include <optional>

#include <CLI/CLI.hpp>

#include "experiments/config/wording.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/interruption_signals.h"
#include "experiments/program/schedule/picture.h"
#include "experiments/program/schedule/playground.h"
#include "experiments/program/schedule/report.h"
#include "experiments/program/schedule/search_report.h"
#include "experiments/training/planning/run_plan.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "layers/head/head_config.h"
#include "parallel/pipeline/passes/offload.h"
#include "parallel/pipeline/passes/passes.h"
#include "parallel/pipeline/schedule_csv.h"
#include "parallel/pipeline/schedules.h"

namespace heddle {

namespace {

constexpr const char* default_costs = "1,1,1,0";

struct ScheduleCommand {
  std::string name;            // of schedule_types()
  std::filesystem::path file;  // or a CSV file
  bool search = false;         // or the best of all
  std::optional<std::int64_t> stages;
  std::optional<std::int64_t> micro_batches;
  std::optional<std::int64_t> chunks;             // none: default_chunks(); in a search the most, none: 4
  std::optional<std::int64_t> max_micro_batches;  // a search only; none: micro_batches
  std::optional<double> memory;                   // of a search
  std::string costs = default_costs;              // F,I,W,c
  Recompute recompute = Recompute::never;
  bool critical_path = false;
  Offload offload = Offload::never;
  std::optional<double> offload_cost;  // none: 0
  std::optional<HeadWork> head;        // of a head on all ranks; none: no head
  std::optional<double> head_cost;     // none: 1
  bool csv = false;
  bool json = false;
  std::filesystem::path svg;
  std::filesystem::path html;  // of a page for all schedules
};

/// The costs of one micro-batch on a rank, and of a message.
struct Costs {
  StageCosts rank;
  TransferCosts transfer;
};

Costs costs_of(const std::string& text) {
  const auto wrong = [&] {
    fail<InputError>("--costs: expected F,I,W,c, four numbers, 0 or from 1e-18 to 1e18 and not all 0, got {}",
                     in_quotes(text));
  };
  std::array<double, 4> values{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [next, error] = std::from_chars(at, end, values.at(i));
    const bool is_last = i + 1 == values.size();
    const bool is_cost = values.at(i) == 0 || (values.at(i) >= 1e-18 && values.at(i) <= 1e18);
    if (error != std::errc() || !is_cost || (next == end) != is_last || (!is_last && *next != ',')) wrong();
    at = next + 1;
  }
  if (values == std::array<double, 4>{}) wrong();
  const auto [forward, backward_input, backward_weight, transfer] = values;
  return {.rank = {.forward = forward,
                   .backward_input = backward_input,
                   .backward_weight = backward_weight,
                   .recompute = forward},
          .transfer = {.latency = transfer}};
}

int bounded(const std::optional<std::int64_t>& value, std::string_view option, std::string_view what, int maximum) {
  if (!value) fail<InputError>("schedule: expected {}, {}", option, what);
  if (*value < 1 || *value > maximum)
    fail<InputError>("{}: expected an integer from 1 to {}, got {}", option, maximum, *value);
  return static_cast<int>(*value);
}

Schedule named(const ScheduleCommand& command) {
  const int chunks = default_chunks(command.name);  // a misspelt name is the first error
  const ScheduleShape shape{.ranks = bounded(command.stages, "--stages", "the number of ranks", max_stages),
                            .micro_batches = bounded(command.micro_batches, "--micro-batches",
                                                     "the number of micro-batches", max_micro_batches),
                            .chunks = command.chunks ? bounded(command.chunks, "--chunks", "", 1024) : chunks};
  if (std::int64_t{shape.ranks} * shape.chunks > max_cells / shape.micro_batches)
    fail<InputError>("schedule: expected at most {} micro-batches in all stages together, got {} x {} x {}", max_cells,
                     shape.ranks, shape.chunks, shape.micro_batches);
  return make_schedule(command.name, shape);
}

Schedule from_file(const ScheduleCommand& command) {
  if (command.stages || command.micro_batches || command.chunks)
    fail<InputError>(
        "schedule: expected --file without --stages, --micro-batches and --chunks, which the file determines");
  return from_csv(read_file(command.file, max_csv_bytes), command.file.string());
}

/// Simulates the schedule; with `costs` from costs_per_stage.
ScheduleReport report_of(const ScheduleCommand& command, std::string name, Schedule schedule,
                         const SimulationCosts& costs) {
  ScheduleReport report{std::move(name), std::move(schedule), {}, {}};
  report.simulation = simulate(report.schedule, costs);
  if (!command.critical_path) return report;
  // The first stage's share of its rank's costs gives those of the rank.
  const std::vector<int>& rank_of = report.schedule.rank_of;
  const auto stages = static_cast<double>(std::count(rank_of.begin(), rank_of.end(), rank_of.front()));
  const StageCosts& stage = costs.stages.front();
  const TransferCosts transfer = costs.transfer(0, 1);
  report.critical =
      CriticalPathReport{critical_path(report.schedule, costs, report.simulation.timeline),
                         cost_effects(report.schedule, costs),
                         {stages * stage.forward, stages * stage.backward_input, stages * stage.backward_weight,
                          stages * stage.recompute, transfer.latency + transfer.occupancy}};
  return report;
}

double checked_cost(std::string_view option, double cost) {
  if (cost == 0 || (cost >= 1e-18 && cost <= 1e18)) return cost;
  fail<InputError>("{}: expected 0 or a number from 1e-18 to 1e18, got {}", option, cost);
}

double offload_cost_of(const ScheduleCommand& command, const Schedule& schedule) {
  if (!command.offload_cost) return 0;
  const double cost = checked_cost("--offload-cost", *command.offload_cost);
  if (!has_offload(schedule))
    fail<InputError>("--offload-cost: the schedule offloads nothing{}", command.offload == Offload::never
                                                                            ? " (--offload half or all adds O and L)"
                                                                            : ": every micro-batch is needed too soon");
  return cost;
}

/// Says why --offload has no effect, if it has none.
void note_that_nothing_is_offloaded(const ScheduleCommand& command, const Schedule& schedule, const Console& console) {
  if (command.offload == Offload::never || has_offload(schedule)) return;
  console.err << fmt::format("--offload {}: nothing is offloaded: every micro-batch{} is needed too soon\n",
                             name_of(command.offload), command.offload == Offload::half ? " that it chooses" : "");
}

Schedule with_head(Schedule schedule, const std::optional<HeadWork>& work) {
  if (!work) return schedule;
  if (is_forward_only(schedule)) fail<InputError>("--head: the schedule has no backward, and so no loss");
  return with_loss(std::move(schedule), loss_form_of(*work));
}

ScheduleReport reported(const ScheduleCommand& command, const Costs& costs) {
  Schedule schedule = command.file.empty() ? named(command) : from_file(command);
  schedule = with_offload(with_recompute(std::move(schedule), command.recompute), command.offload);
  schedule = with_head(std::move(schedule), command.head);
  StageCosts rank = costs.rank;
  rank.loss = checked_cost("--head-cost", command.head_cost.value_or(1));
  const double exchange = costs.transfer.latency;
  if (command.head == HeadWork::at_once) rank.loss += 3 * exchange;  // embeddings, sums, gradient
  rank.offload = offload_cost_of(command, schedule);
  SimulationCosts simulated{.stages = costs_per_stage(rank, schedule.rank_of)};
  simulated.loss_messages = {.outputs = exchange, .sums = exchange, .gradient = exchange};
  simulated.transfer = [transfer = costs.transfer](int, int) { return transfer; };
  std::string name = command.file.empty() ? command.name : command.file.string();
  return report_of(command, std::move(name), std::move(schedule), simulated);
}

const CriticalPath* path_of(const ScheduleReport& report) {
  return report.critical ? &report.critical->path : nullptr;
}

std::string drawn(const ScheduleReport& report, const Terminal& terminal) {
  PictureStyle style;
  if (terminal.is_terminal) style = {.columns = terminal.columns, .colour = terminal.colour};
  return schedule_title(report) + "\n\n" +
         picture_text(report.simulation.timeline, report.schedule, style, path_of(report)) + "\n" +
         schedule_figures(report);
}

void draw_svg(const ScheduleCommand& command, const ScheduleReport& report, const Console& console) {
  if (command.svg.empty()) return;
  write_file_atomically(
      command.svg, picture_svg(report.simulation.timeline, report.schedule, schedule_title(report), path_of(report)));
  console.err << fmt::format("picture: {}\n", command.svg.string());
}

void print(const ScheduleCommand& command, const ScheduleReport& report, const Console& console) {
  draw_svg(command, report, console);
  if (command.csv) {
    console.out << to_csv(report.schedule);
  } else {
    console.out << (command.json ? schedule_json(report) : drawn(report, console.out_terminal));
  }
}

ScheduleSearchSpace space_of(const ScheduleCommand& command, const Costs& costs) {
  constexpr int maximum = 1 << 16;
  ScheduleSearchSpace space{
      .ranks = bounded(command.stages, "--stages", "the number of ranks", maximum),
      .micro_batches = bounded(command.micro_batches, "--micro-batches", "the number of micro-batches", maximum),
      .costs = costs.rank,
      .transfer = costs.transfer,
      .memory = command.memory};
  space.max_tried_micro_batches = space.micro_batches;
  if (command.max_micro_batches)
    space.max_tried_micro_batches = bounded(command.max_micro_batches, "--max-micro-batches", "", maximum);
  if (command.chunks) space.max_chunks = bounded(command.chunks, "--chunks", "", 64);
  if (command.memory && !(*command.memory > 0))
    fail<InputError>("--memory: expected a number > 0, got {}", *command.memory);
  if (command.recompute != Recompute::never) fail<InputError>("schedule: --search does not take --recompute");
  if (command.offload != Offload::never || command.offload_cost)
    fail<InputError>("schedule: --search does not take --offload and --offload-cost");
  if (command.head) fail<InputError>("schedule: --search does not take --head");
  return space;
}

/// Searches until it is done or a signal comes, whose number `interrupted_by` gives; else that is 0. A search that
/// takes longer than a second shows its progress.
ScheduleSearchResult search(const ScheduleSearchSpace& space, const Console& console, int& interrupted_by) {
  constexpr double min_seconds = 1;
  Progress progress(console.err, console.terminal);
  InterruptionSignals signals({SIGINT, SIGTERM}, "the search ends with the best so far");
  Interruption& interruption = signals.interruption();
  interruption.is_heeded = true;
  const double begin = steady_seconds();
  const auto show = [&](const ScheduleSearchProgress& tried) {
    if (console.terminal.is_terminal && steady_seconds() >= begin + min_seconds)
      progress.update([&] { return search_progress(tried); });
  };
  ScheduleSearchResult result =
      search_schedules(space, {.on_progress = show, .is_interrupted = [&] { return interruption.signal != 0; }});
  interrupted_by = result.is_interrupted ? interruption.signal.load() : 0;
  return result;
}

/// Returns the exit code.
int search_and_print(const ScheduleCommand& command, const Console& console) {
  const ScheduleSearchSpace space = space_of(command, costs_of(command.costs));
  int interrupted_by = 0;
  const ScheduleSearchResult result = search(space, console, interrupted_by);
  const int code = interrupted_by == 0 ? 0 : 128 + interrupted_by;
  if (code != 0 && !result.schedules.front().fits) {
    console.err << "heddle: interrupted before a schedule that fits was found\n";
    return code;
  }
  check_that_one_fits(result, space);
  const ScheduleCandidate& best = result.schedules.front();
  const ScheduleReport report = report_of(command, best.name, best.schedule, costs_of(space, best.schedule));
  if (command.json) {
    draw_svg(command, report, console);
    console.out << search_json(result, report);
    return code;
  }
  if (!command.csv) console.out << search_table(result, space) << "\n";
  print(command, report, console);
  return code;
}

void check_sources(const ScheduleCommand& command) {
  const int sources = (command.name.empty() ? 0 : 1) + (command.file.empty() ? 0 : 1) + (command.search ? 1 : 0);
  if (sources != 1)
    fail<InputError>(
        "schedule: expected one of: the name of a schedule (heddle list schedules), --file, --search, --html");
  // `heddle list schedules` has it, because pipeline.schedule takes it.
  if (command.name == "csv")
    fail<InputError>("schedule: expected --file FILE.csv, the file to read, in place of the name csv");
  if (!command.search && (command.memory || command.max_micro_batches))
    fail<InputError>("schedule: --memory and --max-micro-batches are for --search");
  if (command.csv && command.json) fail<InputError>("schedule: expected --csv or --json, got both");
  if (command.critical_path && command.offload != Offload::never)
    fail<InputError>("schedule: --critical-path does not take --offload");
  if (command.critical_path && command.head) fail<InputError>("schedule: --critical-path does not take --head");
  if (command.head_cost && !command.head) fail<InputError>("--head-cost: expected --head, whose time it is");
  if (command.csv && command.critical_path)
    fail<InputError>("schedule: expected --critical-path without --csv, which has no place for it");
}

void write_playground(const ScheduleCommand& command, const Console& console) {
  if (!command.name.empty() || !command.file.empty() || command.search || command.stages || command.micro_batches ||
      command.chunks || command.memory || command.max_micro_batches || command.csv || command.json ||
      command.critical_path || !command.svg.empty() || command.recompute != Recompute::never ||
      command.costs != default_costs || command.offload != Offload::never || command.offload_cost || command.head ||
      command.head_cost)
    fail<InputError>("schedule: expected --html FILE without other options: everything is chosen on the page");
  write_file_atomically(command.html, playground_html());
  console.out << command.html.string() << "\n";
}

/// Simulates and draws one pipeline schedule, or prints its CSV; with a search, those of the best one. Returns the exit
/// code.
int schedule_command(const ScheduleCommand& command, const Console& console) {
  if (!command.html.empty()) {
    write_playground(command, console);
    return 0;
  }
  check_sources(command);
  if (command.search) return search_and_print(command, console);
  const ScheduleReport report = reported(command, costs_of(command.costs));
  note_that_nothing_is_offloaded(command, report.schedule, console);
  print(command, report, console);
  return 0;
}

}  // namespace

void add_schedule(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ScheduleCommand>();
  app.add_option("NAME", command->name,
                 "the schedule's name (see `heddle list schedules`); use --file to read one from a file");
  app.add_option("--file", command->file,
                 "instead of a name: read the schedule from a file that PyTorch's pipelining wrote")
      ->type_name("FILE.csv");
  app.add_flag(
      "--search", command->search,
      "instead of a name: find the best among all named schedules and schedules that are made for these costs, "
      "for several m and v, and print a lower bound; --costs are for m = --micro-batches and are scaled for "
      "other m");
  app.add_option(
      "--memory", command->memory,
      "with --search: the number of micro-batches that each rank may hold; a micro-batch is held from its forward to "
      "the end of its weight part");
  app.add_option("--max-micro-batches", command->max_micro_batches,
                 "with --search: also try multiples of m up to this number (default: only its divisors)");
  app.add_option("--stages", command->stages,
                 "p, the number of ranks; with --chunks v the model is cut into p * v stages");
  app.add_option("--micro-batches", command->micro_batches, "m, the number of micro-batches in a step");
  app.add_option(
      "--chunks", command->chunks,
      fmt::format("v, the number of stages per rank (default: two or, if the schedule does not take two, the nearest "
                  "number that it takes); with --search: the most (default: {})",
                  default_max_chunks));
  app.add_option("--costs", command->costs,
                 fmt::format("the times of one micro-batch on a rank, divided among its stages: forward, input part "
                             "and weight part of backward, and one transfer (default: {})",
                             default_costs))
      ->type_name("F,I,W,c");
  const std::map<std::string, Recompute> modes{
      {"never", Recompute::never}, {"always", Recompute::always}, {"except_last", Recompute::except_last}};
  app.add_option_function<std::string>(
         "--recompute", [command, modes](const std::string& mode) { command->recompute = modes.at(mode); },
         "run the forward again before the backward (R), for all micro-batches or all but the last (default: never)")
      ->check(CLI::IsMember({"never", "always", "except_last"}));
  app.add_flag("--critical-path", command->critical_path,
               "mark the chain of actions and messages that determines the makespan, and print what each cost would "
               "have to be to shorten it");
  app.add_option_function<std::string>(
         "--offload",
         [command](const std::string& mode) { command->offload = mode == "all" ? Offload::all : Offload::half; },
         "move activations to the host's memory after the forward (O) and back before the backward (L): of all "
         "micro-batches, or of the half of a rank's stages that wait longest")
      ->check(CLI::IsMember({"half", "all"}));
  app.add_option("--offload-cost", command->offload_cost,
                 "the time to move one micro-batch's activations of a rank one way, divided among its stages (default: "
                 "0); with --offload all, the link is busy all the time if this is half of F + I + W");
  std::map<std::string, HeadWork> works;
  std::vector<std::string> names;
  for (const HeadWork work : all_of<HeadWork>) works.emplace(names.emplace_back(name_of(work)), work);
  app.add_option_function<std::string>(
         "--head", [command, works](const std::string& name) { command->head = works.at(name); },
         "add a head over all ranks: at once (H), or in parts (J, S, T) with two exchanges or one between the last "
         "stage's forward and backward, as pipeline.head_work does")
      ->check(CLI::IsMember(names));
  app.add_option("--head-cost", command->head_cost,
                 "the time of the head for one micro-batch on each rank: of H, or of S (default: 1); J and T take no "
                 "time, and each exchange of embeddings, sums or gradients takes c");
  app.add_flag(
      "--csv", command->csv,
      "print the schedule in PyTorch's format (without recomputation and the head; PyTorch cannot read the cells "
      "of --offload or schedules with two copies of each stage)");
  app.add_option("--svg", command->svg, "also draw the schedule into this file")->type_name("FILE");
  app.add_option("--html", command->html,
                 "instead: write a page on which all named schedules can be tried, with any costs; it needs no network")
      ->type_name("FILE");
  app.add_flag("--json", command->json, "print the figures as JSON");
  app.callback([&call, command] { call.code = schedule_command(*command, call.console); });
}

}  // namespace heddle
