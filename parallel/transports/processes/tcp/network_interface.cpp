#include "parallel/transports/processes/tcp/network_interface.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "framework/error.h"
#include "parallel/transports/processes/number.h"

namespace heddle {

namespace {

struct Subnet {
  std::uint32_t host = 0;  // in network order, as is the mask
  std::uint32_t mask = 0;

  bool contains(std::uint32_t other) const { return ((host ^ other) & mask) == 0; }
};

/// Nothing for the name of an interface; InputError for a subnet that is none.
std::optional<Subnet> subnet_of(const std::string& text) {
  const std::size_t slash = text.find('/');
  in_addr host{};
  const bool is_address = ::inet_pton(AF_INET, text.substr(0, slash).c_str(), &host) == 1;
  if (slash == std::string::npos) return is_address ? std::optional(Subnet{host.s_addr, ~0U}) : std::nullopt;
  const int bits = number_of<int>(std::string_view(text).substr(slash + 1)).value_or(-1);
  if (!is_address || bits < 0 || bits > 32)
    fail<InputError>("HEDDLE_INTERFACE: expected the name of an interface, or a subnet such as 10.0.0.0/8, got '{}'",
                     text);
  return Subnet{host.s_addr, bits == 0 ? 0 : htonl(~0U << (32 - bits))};
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) fail("getifaddrs: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET && (entry->ifa_flags & IFF_UP) != 0)
      interfaces.push_back({entry->ifa_name, reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr});
  return interfaces;
}

const NetworkInterface& chosen_interface(const std::string& name_or_subnet,
                                         std::span<const NetworkInterface> interfaces) {
  const std::optional<Subnet> subnet = subnet_of(name_or_subnet);
  const auto found = std::find_if(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& interface) {
    return subnet ? subnet->contains(interface.host) : interface.name == name_or_subnet;
  });
  if (found != interfaces.end()) return *found;
  std::vector<std::string> existing;
  for (const NetworkInterface& interface : interfaces)
    existing.push_back(fmt::format("{} ({})", interface.name, host_text(interface.host)));
  fail<InputError>("HEDDLE_INTERFACE: this machine has no {} '{}' with an IPv4 address; it has {}",
                   subnet ? "interface in the subnet" : "interface", name_or_subnet,
                   existing.empty() ? "none" : fmt::format("{}", fmt::join(existing, ", ")));
}

std::optional<NetworkInterface> interface_of_rendezvous(const std::string& name_or_subnet, const TcpAddress& leader,
                                                        bool leads) {
  if (name_or_subnet.empty()) return {};
  const std::vector<NetworkInterface> interfaces = network_interfaces();
  const NetworkInterface chosen = chosen_interface(name_or_subnet, interfaces);
  if (!leads || leader.host == chosen.host || is_loopback(leader)) return chosen;
  for (const NetworkInterface& other : interfaces)
    if (other.host == leader.host)
      fail<InputError>(
          "HEDDLE_INTERFACE: '{}' is {} ({}), and MASTER_ADDR, where the other ranks look for rank 0, is {} ({})",
          name_or_subnet, chosen.name, host_text(chosen.host), other.name, host_text(other.host));
  return chosen;
}

}  // namespace heddle
