// The choice of the network interface by which a process is reached.
#include "parallel/transports/processes/tcp/network_interface.h"

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"
#include "tests/support/message.h"
#include "tests/support/processes/local_job.h"

namespace heddle::test {

TEST_CASE("sockets: an interface is chosen by its name or a subnet, and the error lists those that exist") {
  const auto host = [](const char* text) { return TcpSocket::resolve(text, 1).host; };
  const std::vector<NetworkInterface> interfaces{
      {"lo", host("127.0.0.1")}, {"eth0", host("192.168.1.7")}, {"eth1", host("10.1.2.3")}, {"eth1", host("10.1.2.4")}};
  const auto chosen = [&](const char* text) {
    const NetworkInterface& interface = chosen_interface(text, interfaces);
    return interface.name + " " + host_text(interface.host);
  };
  CHECK(chosen("lo") == "lo 127.0.0.1");
  CHECK(chosen("eth1") == "eth1 10.1.2.3");
  CHECK(chosen("10.0.0.0/8") == "eth1 10.1.2.3");
  CHECK(chosen("10.1.2.4") == "eth1 10.1.2.4");
  CHECK(chosen("10.1.2.4/31") == "eth1 10.1.2.4");
  CHECK(chosen("192.168.1.99/24") == "eth0 192.168.1.7");
  CHECK(chosen("0.0.0.0/0") == "lo 127.0.0.1");
  const auto refused = [&](const char* text) { return message_of<InputError>([&] { (void)chosen(text); }); };
  const std::string existing = "; it has lo (127.0.0.1), eth0 (192.168.1.7), eth1 (10.1.2.3), eth1 (10.1.2.4)";
  CHECK(refused("ib0") == "HEDDLE_INTERFACE: this machine has no interface 'ib0' with an IPv4 address" + existing);
  CHECK(refused("172.16.0.0/12") ==
        "HEDDLE_INTERFACE: this machine has no interface in the subnet '172.16.0.0/12' with an IPv4 address" +
            existing);
  CHECK(refused("10.1.2.0/32") ==
        "HEDDLE_INTERFACE: this machine has no interface in the subnet '10.1.2.0/32' with an IPv4 address" + existing);
  for (const char* wrong : {"10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8", "eth0/8", "/8", "10.0.0.0/8x"})
    CHECK(refused(wrong) == fmt::format("HEDDLE_INTERFACE: expected the name of an interface, or a subnet such as "
                                        "10.0.0.0/8, got '{}'",
                                        wrong));
  CHECK(message_of<InputError>([] { (void)chosen_interface("lo", {}); }) ==
        "HEDDLE_INTERFACE: this machine has no interface 'lo' with an IPv4 address; it has none");
}

TEST_CASE("sockets: rank 0 refuses an interface at which the other ranks would not find it") {
  const std::vector<NetworkInterface> interfaces = network_interfaces();
  REQUIRE(chosen_interface("lo", interfaces).name == "lo");
  for (const NetworkInterface& other : interfaces) {
    if (is_loopback({other.host, 0})) continue;
    const RendezvousAddress point{host_text(other.host), free_port(), "lo"};
    CHECK(
        message_of<InputError>([&] {
          (void)join_by_tcp({0, 2}, point, {std::chrono::milliseconds(50)});
        }) ==
        fmt::format("HEDDLE_INTERFACE: 'lo' is lo (127.0.0.1), and MASTER_ADDR, where the other ranks look for rank 0, "
                    "is {} ({})",
                    other.name, host_text(other.host)));
  }
}

}  // namespace heddle::test
