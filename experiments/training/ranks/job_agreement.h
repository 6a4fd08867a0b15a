// Calls on which all processes of a job agree, between the sections in which their ranks communicate. Without a job
// (null) there is only this process.
#pragma once

#include <functional>
#include <vector>

#include "experiments/data/dataset.h"
#include "parallel/transports/processes/job.h"

namespace heddle {

/// Runs the body on every process. If it throws on one of them, all of them throw the same error.
void together(Job* job, const std::function<void()>& body);

/// Returns rank 0's numbers on all processes; what the others pass is ignored.
std::vector<double> broadcast_numbers(Job* job, const std::vector<double>& numbers);

/// InputError unless all processes have as many images of as many people as rank 0, with the same labels and weights.
void check_same_data(const Dataset& dataset, Job* job);

}  // namespace heddle
