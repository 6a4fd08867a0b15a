// Ranks over the transport nccl, with stand-ins for NCCL and for the job's processes.
#pragma once

#include <cstdint>
#include <functional>

#include <doctest/doctest.h>

#include "parallel/transports/processes/nccl/nccl_path.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/nccl_on_host.h"
#include "tests/support/ranks.h"

namespace heddle::test {

inline WorldOptions on_nccl(int count, NcclOnHost& nccl) {
  WorldOptions options = ranks(count);
  options.transport = "nccl";
  options.element_path = nccl_elements(nccl);
  return options;
}

/// More elements than travel within control messages.
inline Tensor large(Rank& rank, std::int64_t count = 30000, double value = 1) {
  return Tensor::full(rank.device, {count}, DType::f32, value);
}

/// The numbers of NCCL calls that the body makes on `count` ranks.
inline NcclOnHost::Counts counts_of(int count, const std::function<void(Rank&)>& body) {
  NcclOnHost nccl;
  run_in_processes(on_nccl(count, nccl), body);
  CHECK(nccl.is_clean());
  return nccl.counts();
}

}  // namespace heddle::test
