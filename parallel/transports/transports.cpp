#include "parallel/transports/transports.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/ranges.h>

#include "framework/error.h"
#include "parallel/transports/processes/nccl/nccl_path.h"

namespace heddle {

namespace {

constexpr std::array<std::string_view, 2> any_memory{"cpu", "cuda"};
constexpr std::array<std::string_view, 1> host_memory{"cpu"};
constexpr std::array<std::string_view, 1> gpu_memory{"cuda"};

const std::array<TransportType, 3> types{{
    {.name = transport_of_threads,
     .description = "all ranks are threads of one process; with device cuda they share one GPU",
     .devices = any_memory},
    {.name = "processes",
     .former_name = "mpi",
     .description =
         "each rank is a process of a job, connected by MPI or by sockets, depending on how the job was started",
     .needs_job = true,
     .devices = host_memory,
     .restriction = "MPI and sockets move host memory only"},
    {.name = "nccl",
     .description = "each rank is a process of a job with a GPU of its own; NCCL moves the tensors",
     .needs_job = true,
     .devices = gpu_memory,
     .restriction = "NCCL moves GPU memory only",
     .needs_own_gpu = true,
     .version = nccl_version,
     .element_path = [] { return nccl_elements(open_nccl()); }},
}};

}  // namespace

bool TransportType::moves_memory_of(std::string_view device) const {
  return device == "plan" || std::find(devices.begin(), devices.end(), device) != devices.end();
}

std::span<const TransportType> transport_types() {
  return types;
}

const TransportType& transport_type(std::string_view name) {
  const auto row =
      std::find_if(types.begin(), types.end(), [&](const TransportType& type) { return type.name == name; });
  if (row != types.end()) return *row;
  std::vector<std::string_view> names;
  for (const TransportType& type : types) names.push_back(type.name);
  fail<InputError>("transport: expected one of {}, got {}", fmt::join(names, ", "), name);
}

const TransportType& transport_of_jobs(std::string_view device) {
  return *std::find_if(types.begin(), types.end(),
                       [&](const TransportType& type) { return type.needs_job && type.moves_memory_of(device); });
}

}  // namespace heddle
