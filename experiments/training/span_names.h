// The names of the spans in a trace that are not actions of the pipeline (those are `to_string(Action)`) and not calls
// of communicators. The trainer records them; the prediction of steps and the notebook's timeline read them.
#pragma once

namespace heddle::span_names {

inline constexpr const char* load = "load";                // the images of a micro-batch
inline constexpr const char* head_weight = "head weight";  // the head's weights: their gradient and their step
inline constexpr const char* head_norm = "head norm";      // the norm of the head's gradient
inline constexpr const char* loader_wait = "loader wait";  // within load: for images that the loader has not read yet
inline constexpr const char* optimizer = "optimizer";      // the step of all weights

}  // namespace heddle::span_names
