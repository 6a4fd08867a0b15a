#include "experiments/import/weights_source.h"

#include <array>

#include "experiments/import/torch_file.h"
#include "framework/error.h"

namespace heddle {

namespace {

class SafetensorsSource final : public WeightsSource {
 public:
  explicit SafetensorsSource(const std::filesystem::path& path) : reader_(path) {}

  std::string description() const override { return "a safetensors file"; }
  const std::vector<SafetensorsEntry>& entries() const override { return reader_.entries(); }
  std::vector<std::byte> read(std::size_t index) const override {
    std::vector<std::byte> bytes(entries()[index].bytes());
    reader_.read(index, bytes);
    return bytes;
  }

 private:
  SafetensorsReader reader_;
};

/// torch.save before PyTorch 1.6 wrote pickles one after the other, of protocol 2.
bool is_former_torch(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  std::array<std::byte, 2> begin{};
  if (file.size() < begin.size()) return false;
  file.read_at(0, begin);
  return begin == std::array{std::byte{0x80}, std::byte{2}};
}

}  // namespace

std::unique_ptr<WeightsSource> open_weights(const std::filesystem::path& path, const std::string& key) {
  if (ZipFile::is_zip(path)) return std::make_unique<TorchFile>(path, key);
  if (is_former_torch(path))
    fail<InputError>(
        "{}: was saved by a PyTorch before 1.6, or with _use_new_zipfile_serialization=False: load it there, and "
        "save it again with torch.save",
        path.string());
  if (!key.empty()) fail<InputError>("{}: --key is for files of torch.save", path.string());
  return std::make_unique<SafetensorsSource>(path);
}

}  // namespace heddle
