#include "parallel/communicator/tracer.h"

namespace heddle {

namespace {

std::optional<MessageName> message_of(const Call& call) {
  if (call.operation == Operation::send) return MessageName{call.rank, *call.peer, call.sequence};
  if (call.operation == Operation::recv) return MessageName{*call.peer, call.rank, call.sequence};
  return std::nullopt;
}

}  // namespace

double Tracer::settled_now() const {
  if (recording_) device_.backend().settle();
  return clock_.now();
}

void Tracer::after(const Call& call, const Outcome& outcome) {
  record({std::string(name_of(call.operation)), true, outcome.begin_seconds,
          outcome.end_seconds - outcome.begin_seconds, outcome.sent_bytes, message_of(call)});
}

}  // namespace heddle
