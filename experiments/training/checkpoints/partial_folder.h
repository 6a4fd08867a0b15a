// The folder in which the ranks write a checkpoint before it gets its name.
#pragma once

#include <filesystem>
#include <functional>

namespace heddle {

/// Its InputErrors and DiskErrors name files as if they were written into the target itself.
class PartialFolder {
 public:
  /// One rank makes the folder. It also removes it if the checkpoint does not become complete.
  PartialFolder(std::filesystem::path target, bool is_maker);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  /// Calls `write_into` with the folder, in which it writes its files.
  void write(const std::function<void(const std::filesystem::path&)>& write_into) const;
  /// Renames the folder to the target, in place of what was there. The maker calls it once all ranks have written.
  void commit() const;

  /// Whether a folder is one of these, for example that of a run that was killed.
  static bool is_partial(const std::filesystem::path& path);

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
  bool is_maker_;
};

}  // namespace heddle
