#include "experiments/results/results_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>

#include "experiments/results/event_file.h"
#include "experiments/results/restarts_json.h"
#include "experiments/results/summary.h"
#include "experiments/results/trace.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "experiments/training/ranks/unix_time.h"
#include "framework/files/crc32c.h"
#include "framework/files/line_reader.h"
#include "framework/files/untrusted_json.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view event_file_name = "events.out.tfevents.heddle";
constexpr std::size_t max_line = std::size_t{1} << 26;

/// The folder and those around it that do not exist, the innermost first.
std::vector<fs::path> missing_folders(fs::path path) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (; !path.empty() && !fs::exists(path, ignored); path = path.parent_path()) missing.push_back(path);
  return missing;
}

/// Removes our file from each of a folder's folders, and those folders that it leaves empty.
void remove_from_each(const fs::path& folder, std::string_view file) {
  std::error_code ignored;  // a folder that does not exist, or has other files, is left as it is
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (fs::remove(entry.path() / file, ignored)) fs::remove(entry.path(), ignored);
  }
  fs::remove(folder, ignored);
}

void remove_figures(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path kind = entry.path().extension();
    if (kind == ".svg" || kind == ".png") fs::remove(entry.path(), ignored);
  }
  fs::remove(folder, ignored);
}

void remove_earlier_run(const fs::path& path) {
  std::error_code ignored;
  for (const char* const file : {"summary.json", "metrics.jsonl", "memory.csv", "trace.json", "schedule.csv", "roc.csv",
                                 "notebook.ipynb", "notebook_draft.ipynb", "notebook.html"})
    fs::remove(path / file, ignored);
  remove_from_each(path / "tensorboard", event_file_name);
  remove_from_each(path / "variants", "schedule.csv");
  remove_figures(path / "figures");
}

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// A step as it stands in metrics.jsonl; `time` is Unix time.
struct MetricsLine {
  std::string variant;
  StepRecord record;
  std::optional<double> samples_per_second;
  double time = 0;
};

std::string to_text(const MetricsLine& line) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
  };
  OrderedJson json = {{"variant", line.variant},
                      {"step", line.record.step},
                      {"loss", or_null(line.record.loss)},
                      {"learning_rate", line.record.learning_rate},
                      {"gradient_norm", or_null(line.record.gradient_norm)},
                      {"loss_scale", or_null(line.record.loss_scale)},
                      {"skipped", line.record.is_skipped},
                      {"seconds", line.record.seconds},
                      {"loader_wait", or_null(line.record.loader_wait)},
                      {"samples_per_second", or_null(line.samples_per_second)},
                      {"time", line.time}};
  const auto add_named = [&](const char* key, const NamedNumbers& numbers) {
    if (!numbers.empty()) json[key] = OrderedJson::object();
    for (const auto& [name, number] : numbers) json[key][name] = number;
  };
  if (line.record.save_wait) json["save_wait"] = *line.record.save_wait;
  add_named("losses", line.record.losses);
  add_named("accuracy", line.record.accuracies);
  if (!line.record.restarts.empty()) json["restarts"] = restarts_json(line.record.restarts);
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

/// Removes the lines that are not marked from a file.
void keep_lines(const fs::path& path, const std::vector<bool>& is_kept) {
  AtomicFile file(path);
  LineReader lines(path, max_line);
  for (std::size_t i = 0; i < is_kept.size() && lines.next(); ++i) {
    if (!is_kept[i]) continue;
    file.write(lines.line());
    file.write("\n");
  }
  file.commit();
}

/// Shortens a file, for which most file systems need no room.
void cut_off(const fs::path& path, std::uintmax_t bytes) {
  std::error_code error;
  fs::resize_file(path, bytes, error);
  if (error) fail_to_write(path, error);
}

NamedNumbers named_numbers(const OrderedJson& line, const char* key) {
  NamedNumbers numbers;
  const auto found = line.find(key);
  if (found == line.end() || !found->is_object()) return numbers;
  for (const auto& [name, number] : found->items())
    if (number.is_number()) numbers.emplace_back(name, number.get<double>());
  return numbers;
}

/// Nothing for a line that is not whole, as a killed run's last may be.
std::optional<MetricsLine> parse_line(std::string_view text) {
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  const auto number = [&](const char* key) -> std::optional<double> {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
  };
  const auto skipped = json.find("skipped");
  const auto variant = json.is_object() ? json.find("variant") : json.end();
  const auto step = json.is_object() ? json.find("step") : json.end();
  const std::optional<std::int64_t> steps = step == json.end() ? std::nullopt : count_of(*step);
  if (variant == json.end() || !variant->is_string() || !steps) return std::nullopt;
  return MetricsLine{.variant = variant->get<std::string>(),
                     .record = {.step = *steps,
                                .loss = number("loss"),
                                .losses = named_numbers(json, "losses"),
                                .learning_rate = number("learning_rate").value_or(0),
                                .gradient_norm = number("gradient_norm"),
                                .loss_scale = number("loss_scale"),
                                .is_skipped = skipped != json.end() && *skipped == true,
                                .accuracies = named_numbers(json, "accuracy"),
                                .seconds = number("seconds").value_or(0),
                                .restarts = restarts_of(json),
                                .save_wait = number("save_wait"),
                                .loader_wait = number("loader_wait")},
                     .samples_per_second = number("samples_per_second"),
                     .time = number("time").value_or(0)};
}

std::string event_of(const MetricsLine& line) {
  std::vector<std::pair<std::string, double>> scalars;
  if (line.record.loss) scalars.emplace_back("loss", *line.record.loss);
  for (const auto& [set, loss] : line.record.losses) scalars.emplace_back("loss/" + set, loss);
  scalars.emplace_back("learning_rate", line.record.learning_rate);
  if (line.record.gradient_norm) scalars.emplace_back("gradient_norm", *line.record.gradient_norm);
  if (line.record.loss_scale) scalars.emplace_back("loss_scale", *line.record.loss_scale);
  if (line.samples_per_second) scalars.emplace_back("images_per_second", *line.samples_per_second);
  for (const auto& [set, accuracy] : line.record.accuracies) scalars.emplace_back("accuracy/" + set, accuracy);
  return scalars_event(line.time, line.record.step, scalars);
}

/// What a variant that resumes at a step finds in metrics.jsonl.
struct EarlierLines {
  std::vector<bool> is_kept;   // for each line: all but those of the variant's later steps
  bool drops = false;          // whether some line is not kept
  bool drops_only_end = true;  // whether no line is kept after one that is not
  std::uintmax_t bytes = 0;    // of the lines before that one
  std::vector<Restart> restarts;
  std::int64_t damaged = 0;  // lines; the end of a run that was killed within its last line does not count
};

/// `drops_partial`: whether a last line without an end counts as one that is not kept.
EarlierLines earlier_lines(const fs::path& metrics, std::string_view variant, std::int64_t first_step,
                           bool drops_partial) {
  EarlierLines found;
  for (LineReader lines(metrics, max_line); lines.next();) {
    found.is_kept.push_back(false);
    if (!lines.is_whole()) {
      found.drops = found.drops || drops_partial;
      continue;
    }
    const auto line = parse_line(lines.line());
    if (!line) ++found.damaged;
    // Each list of restarts has all of those before, whose steps may be trained again.
    if (line && line->variant == variant && line->record.restarts.size() > found.restarts.size())
      found.restarts = line->record.restarts;
    found.is_kept.back() = line && (line->variant != variant || line->record.step < first_step);
    if (found.is_kept.back() && found.drops) found.drops_only_end = false;
    found.drops = found.drops || !found.is_kept.back();
    if (!found.drops) found.bytes += lines.line().size() + 1;
  }
  return found;
}

/// Adds the steps of a variant that are in metrics.jsonl to its history and to its TensorBoard file.
void add_earlier_steps(const fs::path& metrics, std::string_view variant, StepHistory& steps, AppendedFile& events) {
  constexpr std::size_t max_pending = 1 << 16;
  std::string pending;
  for (LineReader lines(metrics, max_line); lines.next();) {
    const auto line = lines.is_whole() ? parse_line(lines.line()) : std::nullopt;
    if (!line || line->variant != variant) continue;
    steps.push_back(line->record);
    pending += event_of(*line);
    if (pending.size() < max_pending) continue;
    events.append(pending);
    pending.clear();
  }
  events.append(pending);
}

}  // namespace

std::string variant_of_folder(const std::string& folder) {
  std::string name;
  for (std::size_t i = 0; i < folder.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = folder.data() + i + 1;
    if (folder[i] == '%' && i + 2 < folder.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      name += static_cast<char>(byte);
      i += 2;
    } else {
      name += folder[i];
    }
  }
  return folder_name(name) == folder ? name : folder;
}

std::string folder_name(std::string_view variant) {
  constexpr std::size_t max_size = 200;
  std::string name;
  for (const char c : variant) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                          c == '-' || (c == '.' && !name.empty());
    name += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  if (name.empty()) return "%";
  if (name.size() <= max_size) return name;
  return fmt::format("{}%{:08x}", name.substr(0, max_size), crc32c(variant));
}

fs::path checkpoints_of_variant(const fs::path& results, std::string_view variant) {
  return results / "checkpoint" / folder_name(variant);
}

ResultsFolder::ResultsFolder(fs::path path, std::string_view experiment_json, bool resume, std::function<double()> now)
    : path_(std::move(path)), experiment_json_(experiment_json), resume_(resume), now_(std::move(now)) {
  made_ = missing_folders(path_);
  make_folder(path_);
  lock_.emplace(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path_);
  if (::flock(lock_->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail<InputError>("{}: another run is writing its results there; give this one its own folder with --out",
                     path_.string());
}

ResultsFolder::~ResultsFolder() {
  std::error_code ignored;  // a folder into which another program has written stays
  if (!has_begun_)
    for (const fs::path& folder : made_) fs::remove(folder, ignored);
}

void ResultsFolder::begin() {
  if (has_begun_) return;
  has_begun_ = true;
  if (!resume_) remove_earlier_run(path_);
  if (resume_) fs::remove(path_ / "summary.json");  // it may be of fewer steps than there will be checkpoints for
  try {
    describe();
  } catch (const DiskError&) {
    if (!resume_ || !fs::exists(path_ / "experiment.json")) throw;
    // The run that is resumed has left its own, which stays until `write` replaces it.
  }
}

void ResultsFolder::replace_earlier_run() {
  begin();
  if (std::exchange(replaces_checkpoints_, false)) remove_checkpoints_of_results(path_);
}

void ResultsFolder::describe() {
  if (is_described_) return;
  write_file_atomically(path_ / "experiment.json", experiment_json_);
  is_described_ = true;
}

void ResultsFolder::check_that_it_is_there() const {
  struct stat made {};
  struct stat there {};
  const bool is_same = ::fstat(lock_->get(), &made) == 0 && ::stat(path_.c_str(), &there) == 0 &&
                       made.st_dev == there.st_dev && made.st_ino == there.st_ino;
  if (!is_same) fail("{}: the results folder was removed or replaced during the run", path_.string());
}

EarlierRun ResultsFolder::begin_variant(std::string_view name, std::int64_t first_step, std::int64_t batch) {
  check_that_it_is_there();
  replace_earlier_run();
  variant_ = name;
  batch_ = batch;
  const fs::path metrics = path_ / "metrics.jsonl";
  const bool has_earlier = resume_ && fs::exists(metrics);
  EarlierRun earlier;
  if (has_earlier) earlier = drop_later_steps(metrics, first_step);
  if (!metrics_) metrics_.emplace(metrics);
  std::erase_if(events_, [](const AppendedFile& file) { return file.is_flushed(); });
  const fs::path events = path_ / "tensorboard" / folder_name(name) / event_file_name;
  events_.emplace_back(events, event_file_header(unix_seconds()));
  if (has_earlier) add_earlier_steps(metrics, name, earlier.steps, events_.back());
  return earlier;
}

EarlierRun ResultsFolder::drop_later_steps(const fs::path& metrics, std::int64_t first_step) {
  // The end of a line may be missing because its run was killed, or because this run still holds it in memory.
  EarlierLines lines = earlier_lines(metrics, variant_, first_step, !metrics_);
  if (lines.drops && metrics_ && !metrics_->is_flushed()) {
    metrics_->flush();  // if there is room by now, the file has more lines
    lines = earlier_lines(metrics, variant_, first_step, false);
  }
  if (lines.drops) {
    metrics_.reset();
    if (lines.drops_only_end)
      cut_off(metrics, lines.bytes);
    else
      keep_lines(metrics, lines.is_kept);
  }
  return {.steps = {}, .restarts = std::move(lines.restarts), .damaged_lines = lines.damaged};
}

void ResultsFolder::flush() {
  if (metrics_) metrics_->flush();
  for (AppendedFile& file : events_) file.flush();
}

std::optional<std::string> ResultsFolder::step(const StepRecord& record) {
  MetricsLine line{.variant = variant_, .record = record, .samples_per_second = {}, .time = unix_seconds()};
  if (record.seconds > 0) line.samples_per_second = static_cast<double>(batch_) / record.seconds;
  std::optional<std::string> fault = metrics_->append(to_text(line));
  for (AppendedFile& file : events_) file.append(&file == &events_.back() ? event_of(line) : std::string());
  return fault;
}

void ResultsFolder::write(const RunResult& run) {
  check_that_it_is_there();
  begin();
  flush();
  describe();
  write_file_atomically(path_ / "memory.csv", memory_csv(run));
  if (const std::string roc = roc_csv(run); !roc.empty()) write_file_atomically(path_ / "roc.csv", roc);
  AtomicFile trace(path_ / "trace.json");
  write_trace(trace, run);
  trace.commit();
  write_schedules(run);
  write_file_atomically(path_ / "summary.json", summary_json(run));  // the last: what it tells of is there
  written_variants_ = run.variants.size();
  written_at_ = now_();
}

void ResultsFolder::write_schedules(const RunResult& run) {
  if (run.variants.empty()) return;
  if (schedules_ == 0) write_file_atomically(path_ / "schedule.csv", schedule_csv(run.variants.front()));
  schedules_ = std::max<std::size_t>(schedules_, 1);
  if (run.variants.size() == 1) return;
  // A schedule does not change: each is written once, the first one when a second variant shows that it needs a folder.
  for (std::size_t i = schedules_ == 1 ? 0 : schedules_; i < run.variants.size(); ++i) {
    const VariantResult& variant = run.variants[i];
    const fs::path folder = path_ / "variants" / folder_name(variant.name);
    make_folder(folder);
    write_file_atomically(folder / "schedule.csv", schedule_csv(variant));
  }
  schedules_ = run.variants.size();
}

void ResultsFolder::write_if_due(const RunResult& run) {
  constexpr double min_seconds = 1;
  constexpr std::size_t min_share = 16;  // at least 1/16 of the variants written before
  const std::size_t more = run.variants.size() - std::min(written_variants_, run.variants.size());
  if (written_variants_ == 0 || more * min_share >= written_variants_ || now_() - written_at_ >= min_seconds)
    write(run);
}

void ResultsFolder::finish(const RunResult& run) {
  if (written_variants_ < run.variants.size()) return write(run);
  flush();
}

}  // namespace heddle
