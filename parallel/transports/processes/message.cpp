#include "parallel/transports/processes/message.h"

namespace heddle {

void MessageWriter::put_call(const Call& call) {
  // A structured binding, so that a new member is a compile error until it is also sent.
  const auto& [rank, sequence, operation, reduction, peer, number, parts, start_seconds] = call;
  put(rank);
  put(sequence);
  put(operation);
  put(reduction);
  put_rank(peer);
  put(number);
  put(start_seconds);
  put(parts.size());
  for (const Call::Part& part : parts) {
    put(part.dtype);
    put(part.shape.rank());
    for (const std::int64_t size : part.shape.dimensions()) put(size);
  }
}

Call MessageReader::get_call() {
  Call call;
  call.rank = get<int>();
  call.sequence = get<std::uint64_t>();
  call.operation = get<Operation>();
  call.reduction = get<Reduction>();
  call.peer = get_rank();
  call.number = get<int>();
  call.start_seconds = get<double>();
  const auto parts_count = get<std::size_t>();
  if (parts_count > rest_.size()) fail<MalformedMessage>("a message about {} tensors", parts_count);
  call.parts.resize(parts_count);
  for (Call::Part& part : call.parts) {
    part.dtype = get<DType>();
    std::array<std::int64_t, Shape::max_rank> sizes{};
    const auto rank = static_cast<std::size_t>(get<int>());
    if (rank > sizes.size()) fail<MalformedMessage>("a message with a shape of {} dimensions", rank);
    for (std::size_t i = 0; i < rank; ++i) sizes[i] = get<std::int64_t>();
    part.shape = Shape(std::span<const std::int64_t>(sizes.data(), rank));
  }
  return call;
}

}  // namespace heddle
