#include "experiments/training/checkpoints/partial_folder.h"

#include <string>
#include <utility>

#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

constexpr const char* suffix = ".partial";

}  // namespace

PartialFolder::PartialFolder(std::filesystem::path target, bool is_maker)
    : target_(std::move(target)), path_(target_.string() + suffix), is_maker_(is_maker) {
  if (!is_maker_) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (!error) std::filesystem::create_directories(path_, error);
  if (error) fail_to_write(target_, error);
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;
  if (is_maker_) std::filesystem::remove_all(path_, ignored);
}

void PartialFolder::write(const std::function<void(const std::filesystem::path&)>& write_into) const {
  const auto of_target = [this](std::string text) {
    return text.starts_with(path_.string()) ? text.replace(0, path_.string().size(), target_.string()) : text;
  };
  try {
    write_into(path_);
  } catch (const DiskError& error) {
    throw DiskError(of_target(error.what()));
  } catch (const InputError& error) {
    throw InputError(of_target(error.what()));
  }
}

void PartialFolder::commit() const {
  std::error_code error;
  std::filesystem::remove_all(target_, error);
  if (!error) std::filesystem::rename(path_, target_, error);
  if (error) fail_to_write(target_, error);
  sync_folder(target_.parent_path());
}

bool PartialFolder::is_partial(const std::filesystem::path& path) {
  return path.extension() == suffix;
}

}  // namespace heddle
