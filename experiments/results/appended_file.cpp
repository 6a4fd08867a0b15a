#include "experiments/results/appended_file.h"

#include <span>
#include <utility>

#include "framework/error.h"

namespace heddle {

AppendedFile::AppendedFile(std::filesystem::path path, std::string text, bool replaces)
    : path_(std::move(path)), replaces_(replaces), pending_(std::move(text)) {
  try {
    flush();
  } catch (const DiskError&) {  // the next text reports it
  }
}

std::optional<std::string> AppendedFile::append(std::string_view text) {
  pending_ += text;
  try {
    flush();
  } catch (const DiskError& error) {
    if (!std::exchange(has_reported_, true)) return error.what();
  }
  return {};
}

void AppendedFile::flush() {
  if (!file_) {
    make_folder(path_.parent_path());
    FileDescriptor file = FileDescriptor::open_for_appending(path_);
    if (replaces_) file.truncate();
    file_ = std::move(file);
  }
  while (!pending_.empty()) pending_.erase(0, file_->write_some(std::as_bytes(std::span(pending_))));
  std::string().swap(pending_);  // the records of a resumed run are many
  has_reported_ = false;
}

}  // namespace heddle
