// In place of the binding where NCCL's header was not found.
#include "parallel/transports/processes/nccl/nccl.h"

namespace heddle {

Nccl& open_nccl() {
  fail<InputError>("transport nccl: this program was built without NCCL");
}

std::optional<std::string> nccl_version() {
  return {};
}

}  // namespace heddle
