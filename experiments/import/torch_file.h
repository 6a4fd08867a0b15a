// A file of torch.save: a zip with a pickle, which names tensors, and one member for the elements of each storage. The
// pickle is read without executing anything.
#pragma once

#include <memory>
#include <optional>

#include "experiments/import/weights_source.h"
#include "framework/files/pickle/pickle.h"
#include "framework/files/zip_file.h"

namespace heddle {

class TorchFile final : public WeightsSource {
 public:
  /// The tensors of the pickle's dictionary, or of the dictionary that it has under `key`. With an empty key that is
  /// the only one that has nothing but tensors, if the pickle's own has none. InputError if there is no such
  /// dictionary, or if there are several.
  TorchFile(const std::filesystem::path& path, const std::string& key);

  std::string description() const override { return description_; }
  const std::vector<SafetensorsEntry>& entries() const override { return entries_; }
  std::vector<std::byte> read(std::size_t index) const override;

 private:
  std::string path() const { return zip_.path().string(); }
  std::string text_of(const PickleValue& value) const;
  PickleValue state_dict(const std::string& key);
  void add_tensors(const PickleValue& dictionary);
  void add(const std::string& name, const PickledTensor& tensor);

  ZipFile zip_;
  std::string folder_;  // of the members
  std::vector<std::byte> bytes_;
  std::optional<Pickle> pickle_;
  std::string description_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace heddle
