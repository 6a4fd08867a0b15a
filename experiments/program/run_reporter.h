// Prints the progress of a variant's training on the console, and writes its steps into the results folder.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/console.h"
#include "experiments/results/progress.h"
#include "experiments/results/results_folder.h"
#include "experiments/training/experiment.h"
#include "experiments/training/run_observer.h"

namespace heddle {

class RunReporter final : public RunObserver {
 public:
  /// `folder` belongs to rank 0's process; the others have none.
  RunReporter(const std::string& variant, const TrainConfig& train, bool resumes, Progress& progress,
              ResultsFolder* folder, const Console& console)
      : variant_(variant), train_(train), resumes_(resumes), progress_(progress), folder_(folder), console_(console) {}

  EarlierRun on_begin(std::int64_t first_step) override;
  void on_step(const StepRecord& record) override;
  void on_status(const std::string& text) override;
  void on_note(const std::string& text) override;
  /// Ends the program.
  void on_stall(const std::string& why) override;

 private:
  const std::string& variant_;
  const TrainConfig& train_;
  bool resumes_;
  Progress& progress_;
  ResultsFolder* folder_;
  const Console& console_;
};

}  // namespace heddle
