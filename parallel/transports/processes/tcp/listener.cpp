#include "parallel/transports/processes/tcp/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include <poll.h>

#include "framework/error.h"

namespace heddle {

static_assert(std::is_trivially_copyable_v<TcpHello> && sizeof(TcpHello) == 92);

std::string TcpHello::machine_name() const {
  return {machine.begin(), std::find(machine.begin(), machine.end(), '\0')};
}

std::optional<Reception::Guest> Reception::next(std::span<const TcpSocket> known, Deadline deadline) {
  for (;;) {
    for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
      const bool is_to_go = is_stranger(*visitor);
      if (!is_to_go && visitor->read < sizeof(TcpHello)) {
        ++visitor;
        continue;
      }
      Guest guest{std::move(visitor->socket), visitor->hello};
      visitor = visitors_.erase(visitor);
      if (!is_to_go) return guest;
    }
    if (TcpSocket::Clock::now() >= deadline) return {};
    wait(known, deadline);
    for (TcpSocket socket = listening_.accept(); socket.is_open(); socket = listening_.accept())
      visitors_.push_back({std::move(socket), TcpSocket::Clock::now() + patience});
  }
}

/// Reads what has come of the hello, and no more.
bool Reception::is_stranger(Visitor& visitor) {
  const std::span<std::byte> rest = std::as_writable_bytes(std::span(&visitor.hello, 1)).subspan(visitor.read);
  const std::optional<std::size_t> count = visitor.socket.read_some(rest);
  if (!count) return true;
  visitor.read += *count;
  if (visitor.read >= sizeof(TcpGreeting) && !visitor.hello.greeting.is_of_this_program()) return true;
  return visitor.read < sizeof(TcpHello) && TcpSocket::Clock::now() >= visitor.until;
}

/// Until somebody comes, or says something, or it is too late for one of them.
void Reception::wait(std::span<const TcpSocket> known, Deadline deadline) const {
  std::vector<pollfd> watched{{listening_.number(), POLLIN, 0}};
  for (const Visitor& visitor : visitors_) {
    watched.push_back({visitor.socket.number(), POLLIN, 0});
    deadline = std::min(deadline, visitor.until);
  }
  // A negative number is passed over.
  for (const TcpSocket& socket : known) watched.push_back({socket.number(), POLLRDHUP, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - TcpSocket::Clock::now());
  if (::poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0))) < 0 &&
      errno != EINTR)
    fail("poll: {}", std::strerror(errno));
  for (std::size_t p = 0; p < known.size(); ++p)
    if (watched[watched.size() - known.size() + p].revents != 0)
      fail<RankFailed>("rank {} left while the processes came together", p);
}

}  // namespace heddle
