// The network interfaces of this machine, of which HEDDLE_INTERFACE chooses one. Internal to the wire of sockets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heddle {

/// An IPv4 address of an interface.
struct NetworkInterface {
  std::string name;        // `eth0`
  std::uint32_t host = 0;  // in network order
};

/// The interfaces of this machine that are up.
std::vector<NetworkInterface> network_interfaces();
/// The first with this name, or in this subnet (`10.0.0.0/8`; an address is a subnet of its own). InputError if there
/// is none, with a list of those that exist.
const NetworkInterface& chosen_interface(const std::string& name_or_subnet,
                                         std::span<const NetworkInterface> interfaces);

}  // namespace heddle
