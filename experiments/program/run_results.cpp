#include "experiments/program/run_results.h"

#include "experiments/results/summary.h"
#include "experiments/results/table.h"

namespace heddle {

namespace {

int exit_code(const VariantResult& result) {
  switch (result.status) {
    case VariantResult::Status::ok:
      return 0;
    case VariantResult::Status::out_of_memory:
      return 3;
    case VariantResult::Status::failed:
      return 4;
    case VariantResult::Status::broken_image:
      return 2;
    case VariantResult::Status::interrupted:
      return 128 + result.interrupted_by.value();
    case VariantResult::Status::not_saved:
      return 5;
  }
  return 1;
}

}  // namespace

int print_results(const RunResult& run, bool json, const Console& console) {
  console.out << (json ? summary_json(run) : results_table(run)) << std::flush;
  for (const VariantResult& variant : run.variants)
    if (const int code = exit_code(variant); code != 0) return code;
  return 0;
}

}  // namespace heddle
