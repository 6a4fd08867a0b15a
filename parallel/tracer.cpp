#include "parallel/tracer.h"

namespace heddle {

void Tracer::after(const Call& call, const Outcome& outcome) {
  record({std::string(name_of(call.operation)), true, outcome.begin_seconds,
          outcome.end_seconds - outcome.begin_seconds, outcome.sent_bytes});
}

}  // namespace heddle
