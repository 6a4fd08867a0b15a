#include "parallel/tracer.h"

namespace heddle {

void Tracer::before(const Call& /*call*/) {
  call_began_ = now();
}

void Tracer::after(const Call& call, const Outcome& outcome) {
  record({std::string(name_of(call.operation)), true, call_began_, now() - call_began_, outcome.sent_bytes});
}

}  // namespace heddle
