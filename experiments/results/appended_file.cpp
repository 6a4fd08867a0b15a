#include "experiments/results/appended_file.h"

#include <span>
#include <utility>

#include "framework/error.h"

namespace heddle {

std::optional<std::string> AppendedFile::append(std::string_view text) {
  pending_ += text;
  try {
    flush();
  } catch (const DiskError& error) {
    if (!std::exchange(has_told_, true)) return error.what();
  }
  return {};
}

void AppendedFile::flush() {
  while (!pending_.empty()) pending_.erase(0, file_.write_some(std::as_bytes(std::span(pending_))));
}

}  // namespace heddle
