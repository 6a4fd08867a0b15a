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

std::optional<TcpListener::Incoming> TcpListener::next(std::span<const TcpSocket> known, Deadline deadline) {
  for (;;) {
    for (auto pending = pending_.begin(); pending != pending_.end();) {
      const bool is_to_go = is_to_reject(*pending);
      if (!is_to_go && pending->read < sizeof(TcpHello)) {
        ++pending;
        continue;
      }
      Incoming incoming{std::move(pending->socket), pending->hello};
      pending = pending_.erase(pending);
      if (!is_to_go) return incoming;
    }
    if (TcpSocket::Clock::now() >= deadline) return {};
    wait(known, deadline);
    for (TcpSocket socket = listening_.accept(); socket.is_open(); socket = listening_.accept())
      pending_.push_back({std::move(socket), TcpSocket::Clock::now() + patience});
  }
}

/// Reads what has arrived of the hello, and no more.
bool TcpListener::is_to_reject(Pending& pending) {
  const std::span<std::byte> rest = std::as_writable_bytes(std::span(&pending.hello, 1)).subspan(pending.read);
  const std::optional<std::size_t> count = pending.socket.read_some(rest);
  if (!count) return true;
  pending.read += *count;
  if (pending.read >= sizeof(TcpPreamble) && !pending.hello.preamble.is_of_this_program()) return true;
  return pending.read < sizeof(TcpHello) && TcpSocket::Clock::now() >= pending.until;
}

/// Waits until a process connects or sends something, or a time limit has passed.
void TcpListener::wait(std::span<const TcpSocket> known, Deadline deadline) const {
  std::vector<pollfd> watched{{listening_.number(), POLLIN, 0}};
  for (const Pending& pending : pending_) {
    watched.push_back({pending.socket.number(), POLLIN, 0});
    deadline = std::min(deadline, pending.until);
  }
  // poll ignores negative numbers.
  for (const TcpSocket& socket : known) watched.push_back({socket.number(), POLLRDHUP, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - TcpSocket::Clock::now());
  if (::poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0))) < 0 &&
      errno != EINTR)
    fail("poll: {}", std::strerror(errno));
  for (std::size_t p = 0; p < known.size(); ++p)
    if (watched[watched.size() - known.size() + p].revents != 0)
      fail<RankFailed>("rank {} disconnected during the rendezvous", p);
}

}  // namespace heddle
