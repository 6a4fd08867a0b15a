// Input with errors, for readers of untrusted files. A test suite tries a few thousand inputs of each kind. The
// variable HEDDLE_TEST_MUTATIONS=FROM-TO asks for other ones by their numbers, 0-1000000 for the first million.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "framework/scalars/random.h"
#include "tests/support/files/rewrite.h"

namespace heddle::test {

/// The bytes after one to four edits: one is changed, some are removed, repeated elsewhere, or made as large or as
/// small as a number can be, one of `inserted` comes in, or the rest is cut off.
std::string mutated(std::string bytes, std::string_view inserted, RandomStream& draws);

/// Reads mutated input. It draws all that it needs from the stream, which depends on the number of the input only.
using MutatedReader = std::function<void(RandomStream&)>;

/// Calls `read` for every input and checks that it returns, or throws an InputError that begins with `prefix`; any
/// other exception ends the test. Some inputs must be read, and at least `min_refused` of them must not.
void check_mutations(std::uint64_t inputs, double min_refused, const std::string& prefix, const MutatedReader& read);

}  // namespace heddle::test
