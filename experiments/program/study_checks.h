// Studies that were read are checked where no single field can tell, and settled on this machine, before anything is
// done with them.
#pragma once

#include "experiments/config/study.h"
#include "experiments/training/experiment.h"

namespace heddle {

using StudyVariant = Study<Experiment>::Member;

/// Whether this machine's CPU multiplies bf16 faster than f32.
bool is_bf16_fast_here();

/// Checks a study that is to be run. InputError names the place in the file where a variant's model, layout, types or
/// device cannot be. What is left to the machine (the head's product type and class tile) becomes what it is on this
/// one.
Study<Experiment> checked(Study<Experiment> study, bool is_bf16_fast = is_bf16_fast_here());

/// The same of a variant that is only to be planned, by whatever clock or transport: what is counted is what its own
/// device would hold.
void prepare_plan(StudyVariant& member);

}  // namespace heddle
