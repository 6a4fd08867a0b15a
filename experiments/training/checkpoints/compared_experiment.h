// The parts of an experiment in which a checkpoint and the run that resumes from it are compared.
#pragma once

#include "experiments/training/experiment.h"

namespace heddle {

/// The experiment without the settings that may change when a run resumes: its length, what it saves and measures, and
/// its limits.
Experiment without_run_settings(Experiment experiment);
/// The experiment without its layout, which changes the results by rounding only.
Experiment without_layout(Experiment experiment);
/// The experiment without its classes and the data from which they are learned.
Experiment without_head(Experiment experiment);
/// The experiment without its people: the data from which they are learned, and the numbers of classes.
Experiment without_people(Experiment experiment);
/// The experiment without the places of its data, and without what is done with broken images, which may change.
Experiment without_places(Experiment experiment);
/// An experiment that was reduced by the functions above, with the name and the evaluation that `whole` has: what
/// `heddle eval` reads from a checkpoint.
Experiment with_evaluation_of(Experiment reduced, const Experiment& whole);

}  // namespace heddle
