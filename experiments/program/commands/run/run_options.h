// What a call of `heddle run` asks for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/config/study.h"
#include "experiments/training/checkpoints/checkpoint_identity.h"
#include "experiments/training/experiment.h"

namespace heddle {

struct RunOptions {
  static constexpr const char* resume_always = "always";
  static constexpr const char* resume_if_possible = "auto";

  std::filesystem::path file;
  std::vector<std::string> sets;  // a.b=json
  std::filesystem::path out;      // empty: results/NAME
  bool json = false;
  std::string resume;       // one of the values above; empty: the run begins anew
  bool replace = false;     // the checkpoints of an earlier run
  bool fresh_head = false;  // when resuming
  bool grow_head = false;
  bool elastic = false;
  bool automatic = false;  // the planner's own choice in place of the file's placements

  bool resumes() const { return !resume.empty(); }
  SavedHead head() const { return fresh_head ? SavedHead::fresh : grow_head ? SavedHead::grown : SavedHead::kept; }
  std::filesystem::path results(const Study<Experiment>& study) const {
    return out.empty() ? std::filesystem::path("results") / study.name : out;
  }
};

}  // namespace heddle
