// Products of oneDNN alone, by which `bench` measures what a kernel and an operation add to them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace heddle {

/// A function that multiplies [1, 1] by [1, 1] in f32 with a team of so many threads; nothing if oneDNN has no code for
/// that.
std::optional<std::function<void()>> bare_product(int threads);

/// A function that multiplies what attention's forward and backward passes multiply, in f32: for each pair of a sample
/// and a head, seven products of [tokens, features] and [tokens, tokens]. All elements of the inputs are equal. As in
/// the kernel, each thread of the caller's team takes whole pairs.
std::function<void()> bare_attention_products(std::int64_t pairs, std::int64_t tokens, std::int64_t features);

}  // namespace heddle
