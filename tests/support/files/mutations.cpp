#include "tests/support/files/mutations.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <doctest/doctest.h>

#include "framework/error.h"

namespace heddle::test {
namespace {

/// The numbers of the first input and of the one behind the last.
struct MutatedInputs {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

MutatedInputs wanted_inputs(const std::string& range) {
  const std::size_t dash = range.find('-');
  REQUIRE_MESSAGE(dash != std::string::npos, "HEDDLE_TEST_MUTATIONS: expected FROM-TO, got " << range);
  return {std::stoull(range), std::stoull(range.substr(dash + 1))};
}

}  // namespace

std::string mutated(std::string bytes, std::string_view inserted, RandomStream& draws) {
  constexpr std::array<char, 4> extremes{'\0', '\x7f', '\x80', '\xff'};
  for (std::uint64_t edits = 1 + draws.below(2) * draws.below(4); edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = draws.below(bytes.size());
    switch (draws.below(16)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
      case 2: {
        const std::size_t count = std::min<std::size_t>(bytes.size() - at, 1U << draws.below(4));
        bytes.replace(at, count, count, extremes[draws.below(extremes.size())]);
        break;
      }
      case 3:
      case 4:
      case 5:
        bytes.erase(at, 1 + draws.below(16));
        break;
      case 6:
      case 7:
      case 8:
        bytes.insert(at, bytes.substr(draws.below(bytes.size()), draws.below(24)));
        break;
      case 9:
      case 10:
      case 11:
        bytes.insert(at, 1, inserted[draws.below(inserted.size())]);
        break;
      default:
        bytes[at] = static_cast<char>(draws.below(256));
        break;
    }
  }
  return bytes;
}

void check_mutations(std::uint64_t inputs, double min_refused, const std::string& prefix, const MutatedReader& read) {
  const char* const wanted = std::getenv("HEDDLE_TEST_MUTATIONS");
  const MutatedInputs numbers = wanted != nullptr ? wanted_inputs(wanted) : MutatedInputs{0, inputs};
  std::uint64_t refused = 0;
  for (std::uint64_t number = numbers.from; number < numbers.to; ++number) {
    RandomStream draws({17}, Purpose::test, 0, number);
    try {
      read(draws);
    } catch (const InputError& error) {
      ++refused;
      REQUIRE_MESSAGE(std::string_view(error.what()).starts_with(prefix), "input " << number << ": " << error.what());
    }
  }
  const std::uint64_t tried = numbers.to - numbers.from;
  CHECK(refused < tried);
  CHECK(static_cast<double>(refused) >= min_refused * static_cast<double>(tried));
  if (wanted != nullptr)
    MESSAGE("inputs " << std::string(wanted) << ": " << refused << " refused, " << tried - refused << " read");
}

}  // namespace heddle::test
