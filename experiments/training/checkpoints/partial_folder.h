// The folder in which the ranks write a checkpoint before it gets its name.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <system_error>

namespace heddle {

/// InputErrors name the file or folder that was wanted.
class PartialFolder {
 public:
  /// One rank makes the folder. It also removes it if the checkpoint does not become complete.
  PartialFolder(std::filesystem::path target, bool is_maker);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  /// Calls `write_into` with the folder. An InputError is returned, because the folder is removed where one is thrown,
  /// and the other ranks may still be writing.
  std::exception_ptr write(const std::function<void(const std::filesystem::path&)>& write_into) const;
  /// Replaces the target. The maker calls it.
  void commit() const;

 private:
  void check(const std::error_code& error) const;

  std::filesystem::path target_;
  std::filesystem::path path_;
  bool is_maker_;
};

}  // namespace heddle
