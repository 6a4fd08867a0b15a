// oneDNN's smallest product, by which `bench` measures what a kernel and an operation add to it.
#pragma once

#include <functional>
#include <optional>

namespace heddle {

/// A function that multiplies [1, 1] by [1, 1] in f32 with a team of so many threads; nothing if oneDNN has no code for
/// that.
std::optional<std::function<void()>> bare_product(int threads);

}  // namespace heddle
