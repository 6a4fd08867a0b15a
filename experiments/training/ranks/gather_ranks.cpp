#include "experiments/training/ranks/gather_ranks.h"

#include <algorithm>
#include <concepts>
#include <optional>
#include <span>
#include <vector>

#include "parallel/transports/processes/message.h"

namespace heddle {

namespace {

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::same_as<T, MessageName>;

// The members of each struct, in one list for both directions. They are bound, so that a new member is a compile error
// until it is also sent.

template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, Span>
void transfer(Archive& archive, T& span) {
  auto& [name, is_communication, begin_seconds, seconds, bytes, message, computing_seconds] = span;
  archive.all(name, is_communication, begin_seconds, seconds, bytes, message, computing_seconds);
}

template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, ChosenConvolution>
void transfer(Archive& archive, T& chosen) {
  auto& [geometry, part, dtype, algorithm, math, workspace, adds_bias] = chosen;
  archive.all(geometry, part, dtype, algorithm, math, workspace, adds_bias);
}

// Rank and coordinates follow from the mesh: all processes have them.
template <class Archive, class T>
requires std::same_as<std::remove_const_t<T>, RankResult>
void transfer(Archive& archive, T& row) {
  auto& [rank, coordinates, peak, peak_offloaded, checkpoint_copy, reserved_bytes, sent_bytes, received_bytes,
         busy_seconds, busy_in_step, first_busy_step, trace, convolutions, notes] = row;
  for (auto& bytes : peak.bytes) archive.all(bytes);
  archive.all(peak_offloaded, checkpoint_copy, reserved_bytes, sent_bytes, received_bytes, busy_seconds, busy_in_step,
              first_busy_step, trace, convolutions, notes);
}

class RowWriter {
 public:
  template <class... T>
  void all(const T&... values) {
    (put(values), ...);
  }
  std::string text() const { return {reinterpret_cast<const char*>(writer_.bytes().data()), writer_.bytes().size()}; }

 private:
  template <Plain T>
  void put(const T& value) {
    writer_.put(value);
  }
  void put(const std::string& text) { writer_.put_text(text); }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
  }
  void put(const Span& span) { transfer(*this, span); }
  void put(const ChosenConvolution& chosen) { transfer(*this, chosen); }

  MessageWriter writer_;
};

class RowReader {
 public:
  explicit RowReader(std::string_view text) : reader_(std::as_bytes(std::span(text))) {}
  template <class... T>
  void all(T&... values) {
    (get(values), ...);
  }

 private:
  template <Plain T>
  void get(T& value) {
    value = reader_.get<T>();
  }
  void get(std::string& text) { text = reader_.get_text(); }
  template <class T>
  void get(std::optional<T>& value) {
    value.reset();
    if (reader_.get<bool>()) get(value.emplace());
  }
  template <class T>
  void get(std::vector<T>& values) {
    values.clear();
    for (auto left = reader_.get<std::size_t>(); left > 0; --left) get(values.emplace_back());
  }
  void get(Span& span) { transfer(*this, span); }
  void get(ChosenConvolution& chosen) { transfer(*this, chosen); }

  MessageReader reader_;
};

}  // namespace

std::string serialized(const RankResult& row) {
  RowWriter writer;
  transfer(writer, row);
  return writer.text();
}

void deserialize(std::string_view text, RankResult& row) {
  RowReader reader(text);
  transfer(reader, row);
}

void gather_ranks(VariantResult& result, Job& job) {
  const auto own = static_cast<std::size_t>(job.rank());
  std::string row;
  if (own < result.ranks.size()) row = serialized(result.ranks[own]);
  const std::vector<std::string> rows = job.gather(row);
  for (std::size_t r = 1; r < std::min(rows.size(), result.ranks.size()); ++r)
    if (!rows[r].empty()) deserialize(rows[r], result.ranks[r]);
}

}  // namespace heddle
