// Serialises values into control messages, between processes of one build on machines of one kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "framework/error.h"
#include "parallel/communicator/transport.h"

namespace heddle {

/// A message that this process cannot read. The text follows the word "sent".
class MalformedMessage : public Error {
 public:
  using Error::Error;
};

class MessageWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    const std::size_t size = bytes_.size();
    bytes_.resize(size + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
  }
  void put_text(std::string_view text) {
    put(text.size());
    put_bytes(std::as_bytes(std::span(text)));
  }
  void put_rank(std::optional<int> rank) { put(rank.value_or(-1)); }
  void put_call(const Call& call);
  const std::vector<std::byte>& bytes() const { return bytes_; }
  /// Back to the first `size` bytes.
  void shrink(std::size_t size) { bytes_.resize(size); }

 private:
  std::vector<std::byte> bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string get_text() {
    const std::span<const std::byte> text = take(get<std::size_t>());
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  /// What `put_rank` wrote.
  std::optional<int> get_rank() {
    const auto rank = get<int>();
    return rank >= 0 ? std::optional(rank) : std::nullopt;
  }
  Call get_call();
  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) fail<MalformedMessage>("a message that ends too early");
    const std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  std::span<const std::byte> rest_;
};

}  // namespace heddle
