#include "parallel/transports/processes/tcp/regroup.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <netinet/in.h>

#include "parallel/transports/processes/tcp/handshake.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "parallel/transports/processes/tcp/tcp_reply.h"

namespace heddle {

namespace {

using Clock = TcpSocket::Clock;

/// A process that is left still listens: a connection to it takes no longer than the network.
constexpr std::chrono::seconds connect_timeout{2};
/// For bytes that have to cross the network.
constexpr std::chrono::seconds send_timeout{2};

class Regroup {
 public:
  Regroup(const Regrouping& regrouping, const TcpSocket& listening, const JobSecret& secret)
      : regrouping_(regrouping), listening_(listening), secret_(secret) {}

  RankAssignment lead() const;
  LeaderAddress leader_address(int leader) const {
    return {.host = leader == 0 ? regrouping_.leader_host : host_text(address(leader).host),
            .port = ntohs(address(leader).port)};
  }
  /// Nothing if that rank has ended. RankFailed if it is there and assigns no rank.
  std::optional<RankAssignment> follow(int leader) const;

 private:
  using Others = std::vector<TcpListener::Incoming>;

  const TcpAddress& address(int rank) const { return regrouping_.addresses[static_cast<std::size_t>(rank)]; }
  bool is_left(int rank) const { return !regrouping_.lost.contains(rank); }
  std::chrono::milliseconds max_wait() const { return std::max(regrouping_.wait_for_lost, regrouping_.wait_for_left); }
  RankAssignment assignment(int rank, int size, int restarts, int leader) const {
    const auto [host, port] = leader_address(leader);
    return {.rank = rank,
            .size = size,
            .restarts = restarts,
            .host = host,
            .port = port,
            .listen_host = host_text(listening_.local_address().host)};
  }
  TcpHello own_hello() const;
  bool is_member(const TcpHello& hello) const;
  bool was_started_again(const TcpHello& hello, const Others& others) const;
  bool are_left_ranks_here(const Others& others) const;
  Others accept_others() const;
  bool can_join(const TcpHello& hello, const Others& others) const;
  void put_in_order(Others& others) const;
  std::optional<TcpAssignment> request_rank(const TcpSocket& socket, TcpSocket::Deadline deadline) const;

  const Regrouping& regrouping_;
  const TcpSocket& listening_;
  const JobSecret& secret_;
};

TcpHello Regroup::own_hello() const {
  TcpHello hello;
  hello.rank = regrouping_.launch.rank;
  hello.size = regrouping_.launch.size;
  hello.restarts = regrouping_.launch.restarts;
  hello.is_elastic = 1;
  hello.job = regrouping_.job;
  hello.address = address(regrouping_.launch.rank);
  return hello;
}

/// Whether it is one of the other ranks so far, which may include a rank that was taken for lost.
bool Regroup::is_member(const TcpHello& hello) const {
  return hello.job == regrouping_.job && hello.restarts == regrouping_.launch.restarts &&
         hello.size == regrouping_.launch.size && hello.rank >= 0 && hello.rank < regrouping_.launch.size &&
         hello.rank != regrouping_.launch.rank;
}

/// Whether it can be a lost rank: at the first restart only a rank that is lost, later any rank of the first start.
bool Regroup::was_started_again(const TcpHello& hello, const Others& others) const {
  const int first_size = regrouping_.launch.first_size.value_or(regrouping_.launch.size);
  if (hello.job != 0 || hello.restarts != 0 || hello.size != first_size || hello.rank < 0 || hello.rank >= first_size)
    return false;
  if (regrouping_.launch.restarts == 0) return !is_left(hello.rank);
  const auto started_again = std::count_if(others.begin(), others.end(),
                                           [](const TcpListener::Incoming& other) { return other.hello.job == 0; });
  return started_again < static_cast<std::ptrdiff_t>(regrouping_.lost.size()) + first_size - regrouping_.launch.size;
}

bool Regroup::are_left_ranks_here(const Others& others) const {
  for (int p = 0; p < regrouping_.launch.size; ++p)
    if (p != regrouping_.launch.rank && is_left(p) &&
        std::none_of(others.begin(), others.end(), [&](const TcpListener::Incoming& other) {
          return is_member(other.hello) && other.hello.rank == p;
        }))
      return false;
  return true;
}

RankAssignment Regroup::lead() const {
  Others others = accept_others();
  // Some may have ended while they waited.
  std::erase_if(others, [](const TcpListener::Incoming& other) { return !other.socket.is_peer_open(); });
  put_in_order(others);
  std::vector<const TcpSocket*> sockets;
  for (const TcpListener::Incoming& other : others) sockets.push_back(&other.socket);
  const int restarts = regrouping_.launch.restarts + 1;
  return assignment(0, assign_ranks(sockets, restarts), restarts, regrouping_.launch.rank);
}

/// The processes that connect, until enough of them are here or the time is over.
Regroup::Others Regroup::accept_others() const {
  Others others;
  TcpListener listener(listening_, secret_);
  const auto begin = Clock::now();
  for (;;) {
    const bool are_all_here = are_left_ranks_here(others);
    if (are_all_here && static_cast<int>(others.size()) + 1 >= regrouping_.preferred_ranks) return others;
    const auto end = begin + (are_all_here ? regrouping_.wait_for_lost : max_wait());
    if (Clock::now() >= end) return others;
    std::optional<TcpListener::Incoming> incoming = listener.next({}, end);
    if (!incoming) continue;
    if (can_join(incoming->hello, others)) {
      others.push_back(std::move(*incoming));
    } else {
      constexpr std::string_view why =
          "the job restarts without this process: only elastic processes with a missing rank can join";
      send_reply(incoming->socket, TcpReply::Kind::failed, why);
    }
  }
}

bool Regroup::can_join(const TcpHello& hello, const Others& others) const {
  const bool is_here = std::any_of(others.begin(), others.end(), [&](const TcpListener::Incoming& other) {
    return other.hello.rank == hello.rank && other.hello.job == hello.job && other.socket.is_peer_open();
  });
  return hello.is_elastic != 0 && !is_here && (is_member(hello) || was_started_again(hello, others));
}

/// By their ranks so far. From the second restart on, the processes that were started again come last.
void Regroup::put_in_order(Others& others) const {
  const auto order = [this](const TcpListener::Incoming& other) {
    return std::pair(regrouping_.launch.restarts > 0 && other.hello.job == 0, other.hello.rank);
  };
  std::sort(others.begin(), others.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
}

std::optional<RankAssignment> Regroup::follow(int leader) const {
  const TcpSocket socket = TcpSocket::try_connect(address(leader), Clock::now() + connect_timeout);
  if (!socket.is_open()) return {};
  const auto wait = is_left(leader) ? max_wait() : std::chrono::milliseconds(0);
  if (const std::optional<TcpAssignment> given = request_rank(socket, Clock::now() + wait + send_timeout))
    return assignment(given->rank, given->size, given->restarts, leader);
  // A lost rank was perhaps only slow to end.
  if (!is_left(leader)) return {};
  fail<RankFailed>("rank {} at {} assigned no rank to this process: the job goes on without it", leader,
                   to_string(address(leader)));
}

/// Nothing if the leader does not assign a rank by the deadline.
std::optional<TcpAssignment> Regroup::request_rank(const TcpSocket& socket, TcpSocket::Deadline deadline) const {
  const auto read = [&](auto& value) {
    return socket.read(std::as_writable_bytes(std::span(&value, 1)), deadline) == TcpSocket::Outcome::done;
  };
  if (connecting_handshake(socket, secret_, deadline).kind != HandshakeResult::Kind::done) return {};
  const TcpHello mine = own_hello();
  if (socket.write(std::as_bytes(std::span(&mine, 1)), deadline) != TcpSocket::Outcome::done) return {};
  TcpReply header;
  TcpAssignment given;
  if (!read(header) || header.kind != TcpReply::Kind::assignment || header.bytes != sizeof(given)) return {};
  if (!read(given) || !given.is_possible()) return {};
  return given;
}

}  // namespace

RankAssignment regroup(const Regrouping& regrouping, const TcpSocket& listening, const JobSecret& secret) {
  const Regroup regroup(regrouping, listening, secret);
  for (int leader = 0; leader < regrouping.launch.rank; ++leader)
    if (const std::optional<RankAssignment> assignment = regroup.follow(leader)) return *assignment;
  if (regrouping.on_lead) regrouping.on_lead(regroup.leader_address(regrouping.launch.rank));
  return regroup.lead();
}

}  // namespace heddle
