// The failure of a rank as a value, which threads and processes hand to the other ranks.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "framework/error.h"

namespace heddle {

/// A rank did not respond in time.
class RankLate : public RankFailed {
 public:
  RankLate(const std::string& why, int rank) : RankFailed(why), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// Why the part of a rank failed.
struct Failure {
  enum class Kind : std::uint8_t { error, rank_failed, out_of_memory, input_error, disk_error } kind = Kind::error;
  std::string why{};
  std::optional<int> late_rank{};  // the rank that did not respond in time, where this is the reason
};
/// The failure that an exception is; nothing for a null pointer, and for Stopped, because another rank has failed then.
std::optional<Failure> failure_of(const std::exception_ptr& exception);
/// Throws the failure as an error of its kind: RankFailed, OutOfMemory, InputError, DiskError or Error.
[[noreturn]] void raise(const Failure& failure);

}  // namespace heddle
