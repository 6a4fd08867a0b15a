// The few functions of Python, NumPy and PyTorch that pickles of arrays and tensors call, each implemented here. Used
// only by pickle.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "framework/files/pickle/pickle.h"

namespace heddle {

/// The values of a pickle while it is read. InputErrors say what is wrong; PickleMachine adds where.
class PickleStore {
 public:
  /// `file_bytes`, the size of the file, bounds the memory of decoded strings.
  PickleStore(Pickle& pickle, std::size_t file_bytes, PickleContent content)
      : pickle_(pickle), content_(content), max_decoded_(4 * file_bytes) {}

  PickleContent content() const { return content_; }

  PickleValue add_sequence(PickleKind kind, std::vector<PickleValue> items);
  /// Adds a string without copying its bytes.
  PickleValue add_string(PickleKind kind, std::span<const std::uint8_t> bytes);
  /// Adds a string that takes memory of its own. All of them together may take four times the size of the file, since
  /// Python writes each string once.
  PickleValue add_decoded(PickleKind kind, std::vector<std::uint8_t> bytes);
  PickleValue add_array(PickledArray array);
  PickleValue add_storage(const PickledStorage& storage);
  PickleValue add_tensor(PickledTensor tensor);

  std::vector<PickleValue>& sequence(const PickleValue& list) { return pickle_.sequences_[Pickle::index_of(list)]; }
  PickledArray& array(const PickleValue& value) { return pickle_.arrays_[Pickle::index_of(value)]; }
  const PickledStorage& storage(const PickleValue& value) const { return pickle_.storages_[Pickle::index_of(value)]; }
  const Pickle& pickle() const { return pickle_; }
  void set_root(const PickleValue& value) { pickle_.root_ = value; }

 private:
  Pickle& pickle_;
  PickleContent content_;
  std::size_t max_decoded_;
  std::size_t decoded_ = 0;
};

/// The function of this name; InputError if it is not implemented, or not one that such a pickle needs.
PickleValue pickled_function(const PickleStore& store, std::string_view module, std::string_view name);
/// The result of the function for a tuple of arguments.
PickleValue pickled_call(PickleStore& store, const PickleValue& function, const PickleValue& arguments);
/// The storage of a tensor, from ('storage', type, key, device, elements).
PickleValue pickled_storage(PickleStore& store, const PickleValue& identity);
/// Gives an array its elements, or a type its byte order (BUILD). A dictionary's attributes are left out.
void pickled_build(PickleStore& store, const PickleValue& object, const PickleValue& state);

}  // namespace heddle
