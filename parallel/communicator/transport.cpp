#include "parallel/communicator/transport.h"

namespace heddle {

namespace {

std::string what_it_does(const Call& call) {
  const std::string name(name_of(call.operation));
  const char* const reduction = call.reduction == Reduction::sum ? "(sum)" : "(max)";
  switch (call.operation) {
    case Operation::reduce:
      return fmt::format("{}{} to rank {}", name, reduction, *call.peer);
    case Operation::all_reduce:
    case Operation::reduce_scatter:
      return name + reduction;
    case Operation::broadcast:
    case Operation::scatter:
    case Operation::recv:
      return fmt::format("{} from rank {}", name, *call.peer);
    case Operation::gather:
    case Operation::send:
      return fmt::format("{} to rank {}", name, *call.peer);
    default:
      return name;
  }
}

}  // namespace

std::string to_string(const Call& call) {
  const bool is_message = call.operation == Operation::send || call.operation == Operation::recv;
  std::string text =
      fmt::format("rank {}, {} {}: {}", call.rank, is_message ? "message" : "call", call.sequence, what_it_does(call));
  for (std::size_t i = 0; i < call.parts.size(); ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", to_string(call.parts[i].dtype, call.parts[i].shape));
  return text;
}

void TransportCall::all_reduce(Reduction reduction, int rank, std::vector<Tensor> results) {
  const auto me = static_cast<std::size_t>(rank);
  reduce(reduction, results[me]);
  offer(std::vector<Tensor>(results.size(), results[me]));
  results[me] = Tensor();
  receive(results);
}

}  // namespace heddle
