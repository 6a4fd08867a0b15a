#include "experiments/training/checkpoints/partial_folder.h"

#include <string>
#include <utility>

#include "framework/error.h"

namespace heddle {

PartialFolder::PartialFolder(std::filesystem::path target, bool is_maker)
    : target_(std::move(target)), path_(target_.string() + ".partial"), is_maker_(is_maker) {
  if (!is_maker_) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (!error) std::filesystem::create_directories(path_, error);
  check(error);
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;
  if (is_maker_) std::filesystem::remove_all(path_, ignored);
}

std::exception_ptr PartialFolder::write(const std::function<void(const std::filesystem::path&)>& write_into) const {
  try {
    write_into(path_);
    return nullptr;
  } catch (const InputError& error) {
    std::string text = error.what();
    if (text.starts_with(path_.string())) text.replace(0, path_.string().size(), target_.string());
    return std::make_exception_ptr(InputError(text));
  }
}

void PartialFolder::commit() const {
  std::error_code error;
  std::filesystem::remove_all(target_, error);
  if (!error) std::filesystem::rename(path_, target_, error);
  check(error);
}

void PartialFolder::check(const std::error_code& error) const {
  if (error) fail<InputError>("{}: cannot be written: {}", target_.string(), error.message());
}

}  // namespace heddle
