// The transports by which the ranks of a run communicate. All other code looks up in this table what a transport needs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "parallel/transports/processes/element_path.h"

namespace heddle {

/// The transport of ranks that are threads of one process, which is the default.
inline constexpr std::string_view transport_of_threads = "threads";

struct TransportType {
  std::string_view name;
  /// A name that experiment files of earlier versions use for it.
  std::optional<std::string_view> former_name{};
  std::string_view description;
  /// The ranks are the processes of a job (job.h), one each. Otherwise they are threads of one process.
  bool needs_job = false;
  /// The devices whose memory it moves. The device `plan` holds no data and works with every transport.
  std::span<const std::string_view> devices;
  /// The reason why it moves the memory of no other device.
  std::string_view restriction{};
  /// Each rank of a machine needs a GPU of its own.
  bool needs_own_gpu = false;
  /// The version of its library that this program was built with, or nothing if it was built without; null for a
  /// transport that has no library.
  std::optional<std::string> (*version)() = nullptr;
  /// How elements move between the processes of a job; opens the library, and throws InputError if it is not there.
  /// Null: they go over the wire that connects the processes.
  MakeElementPath (*element_path)() = nullptr;

  bool moves_memory_of(std::string_view device) const;
};

std::span<const TransportType> transport_types();
/// InputError that lists the known names if this is none of them.
const TransportType& transport_type(std::string_view name);
/// The transport that the processes of a job use for this device.
const TransportType& transport_of_jobs(std::string_view device);

}  // namespace heddle
