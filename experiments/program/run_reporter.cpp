#include "experiments/program/run_reporter.h"

#include <fmt/format.h>

#include "experiments/results/accuracy_tables.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"

namespace heddle {

EarlierRun RunReporter::on_begin(std::int64_t first_step) {
  if (resumes_)
    console_.err << (first_step > 0 ? fmt::format("resuming after step {}\n", first_step)
                                    : "no checkpoint found: starting from the beginning\n")
                 << std::flush;
  progress_.begin(variant_, first_step, train_.steps, train_.batch);
  EarlierRun earlier = folder_->begin_variant(variant_, first_step, train_.batch);
  if (earlier.damaged_lines > 0)
    on_note(fmt::format("metrics.jsonl: {} dropped",
                        counted(earlier.damaged_lines, "damaged line was", "damaged lines were")));
  return earlier;
}

void RunReporter::on_step(const StepRecord& record) {
  if (const auto fault = folder_->step(record))
    on_note(*fault + ": the lines of the steps stay in memory until there is room");
  if (!record.accuracies.empty()) {
    progress_.clear();
    console_.err << fmt::format("step {}:", record.step + 1);
    for (const auto& [set, accuracy] : record.accuracies)
      console_.err << fmt::format("  {} {} %", set, percent(accuracy));
    console_.err << "\n" << std::flush;
  }
  progress_.step(record);
}

void RunReporter::on_status(const std::string& text) {
  progress_.show(text);
}

void RunReporter::on_note(const std::string& text) {
  console_.err << printable_lines(text) << "\n" << std::flush;
}

void RunReporter::on_stall(const std::string& why) {
  console_.err << "heddle: " << why << "\n" << std::flush;
  console_.end_at_once(4);
}

}  // namespace heddle
