// Checks studies for conditions that concern several fields, and resolves the choices that depend on this machine,
// before anything runs.
#pragma once

#include "experiments/config/study.h"
#include "experiments/training/experiment.h"

namespace heddle {

using StudyVariant = Study<Experiment>::Member;

/// Whether this machine's CPU multiplies bf16 faster than f32.
bool is_bf16_fast_here();
/// The rows of a head's weights that a GPU computes at once, unless head.tile says otherwise. The products of the
/// thousand that fit into a CPU's cache end before a GPU's next launch. Fewer rows take longer (docs/measurements.md),
/// and more rows take more memory for their logits and gradients.
inline constexpr std::int64_t rows_of_gpu_tile = 65'536;

/// Checks a study that is to be run. InputError names the place in the file if a variant's model, layout, types or
/// device are impossible. The choices that are left to the machine (the head's product type and class tile) are
/// resolved for this one.
Study<Experiment> checked(Study<Experiment> study, bool is_bf16_fast = is_bf16_fast_here());

/// Adds a warning where a model leaves out pixels of the images, once for each size.
void warn_of_unread_pixels(Study<Experiment>& study);

/// The same as `checked` for a variant that is only planned. Its clock and transport do not matter; the plan counts the
/// bytes on its own device.
void prepare_plan(StudyVariant& member);

}  // namespace heddle
