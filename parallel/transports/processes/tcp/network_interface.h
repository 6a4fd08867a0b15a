// The network interfaces of this machine, of which HEDDLE_INTERFACE chooses one. Internal to the wire of sockets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/transports/processes/tcp/tcp_socket.h"

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
/// The interface of this machine at which a process of a rendezvous listens; nothing if HEDDLE_INTERFACE names none.
/// The other ranks reach rank 0 by MASTER_ADDR: InputError if that is an address of another interface of this machine.
/// A loopback address is no error, because only this machine may resolve its own name to it.
std::optional<NetworkInterface> interface_of_rendezvous(const std::string& name_or_subnet, const TcpAddress& leader,
                                                        bool leads);

}  // namespace heddle
