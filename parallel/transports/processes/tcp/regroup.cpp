#include "parallel/transports/processes/tcp/regroup.h"

#include <algorithm>
#include <string_view>
#include <thread>
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
/// A process that runs the program again as the rank 0 of the restarted job listens again within this time.
constexpr std::chrono::seconds run_again_timeout{5};
/// In which processes that have connected finish their handshake.
constexpr std::chrono::milliseconds turn_away_time{100};
/// Between two questions whether this process gives up.
constexpr std::chrono::milliseconds cancel_interval{100};

/// How a process that was asked for a rank responds.
struct RankResponse {
  enum class Kind { assigned, refused, late, closed, cancelled } kind;
  TcpAssignment given{};
  std::string why{};   // of a refusal, if the process says it
  bool leads = false;  // it has finished the handshake, and so waits for others
};

class Regroup {
 public:
  Regroup(Regrouping regrouping, const TcpSocket& listening, const JobSecret& secret)
      : regrouping_(std::move(regrouping)), listening_(listening), secret_(secret) {}

  /// The first of the ranks that are left leads; each of them finds out by itself which one that is.
  std::optional<RankAssignment> run();

 private:
  using Others = std::vector<TcpListener::Incoming>;

  /// Nothing if it is cancelled.
  std::optional<RankAssignment> lead();
  LeaderAddress leader_address(int leader) const {
    return {.host = leader == 0 ? regrouping_.leader_host : host_text(address(leader).host),
            .port = ntohs(address(leader).port)};
  }
  /// Nothing if that rank has ended, or if it is cancelled. RankFailed if it is there and assigns no rank.
  std::optional<RankAssignment> follow(int leader) const;
  bool is_cancelled() const { return regrouping_.options.is_cancelled(); }
  const TcpAddress& address(int rank) const { return regrouping_.addresses[static_cast<std::size_t>(rank)]; }
  bool is_left(int rank) const { return !regrouping_.lost.contains(rank); }
  int first_size_of_job() const { return regrouping_.launch.first_size.value_or(regrouping_.launch.size); }
  std::chrono::milliseconds wait_for_lost() const { return regrouping_.options.wait_for_lost; }
  std::chrono::milliseconds max_wait() const { return std::max(wait_for_lost(), regrouping_.wait_for_left); }
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
  std::vector<int> awaited_ranks(const Others& others) const;
  void lose_unreachable(const Others& others);
  Others accept_others(TcpListener& listener);
  void remove_ended(Others& others);
  static void turn_away(TcpListener& listener, std::string_view why);
  std::string why_turned_away(const TcpHello& hello, const Others& others) const;
  void put_in_order(Others& others) const;
  RankResponse request_rank(const TcpSocket& socket, TcpSocket::Deadline handshake_deadline) const;
  RankResponse receive_rank(const TcpSocket& socket) const;
  TcpSocket connect_again(int leader) const;

  Regrouping regrouping_;
  const TcpSocket& listening_;
  const JobSecret& secret_;
};

TcpHello Regroup::own_hello() const {
  TcpHello hello;
  hello.rank = regrouping_.launch.rank;
  hello.size = regrouping_.launch.size;
  hello.restarts = regrouping_.launch.restarts;
  hello.is_elastic = 1;
  hello.call_checksum = regrouping_.launch.call_checksum;
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

/// Whether a process that does not know the job's number can be a lost rank of it: at the first restart only a rank
/// that is lost, later any rank of the first start.
bool Regroup::was_started_again(const TcpHello& hello, const Others& others) const {
  const int first_size = first_size_of_job();
  if (hello.restarts != 0 || hello.rank < 0 || hello.rank >= first_size) return false;
  if (regrouping_.launch.restarts == 0) return !is_left(hello.rank);
  const auto started_again = std::count_if(others.begin(), others.end(),
                                           [](const TcpListener::Incoming& other) { return other.hello.job == 0; });
  return started_again < static_cast<std::ptrdiff_t>(regrouping_.lost.size()) + first_size - regrouping_.launch.size;
}

/// The ranks that are left, as far as this process knows, and have not connected.
std::vector<int> Regroup::awaited_ranks(const Others& others) const {
  std::vector<int> awaited;
  for (int p = 0; p < regrouping_.launch.size; ++p)
    if (p != regrouping_.launch.rank && is_left(p) &&
        std::none_of(others.begin(), others.end(), [&](const TcpListener::Incoming& other) {
          return is_member(other.hello) && other.hello.rank == p;
        }))
      awaited.push_back(p);
  return awaited;
}

/// A process that is left listens. One that has ended since the failure, and perhaps was started again, does not.
void Regroup::lose_unreachable(const Others& others) {
  for (const int p : awaited_ranks(others))
    if (!TcpSocket::try_connect(address(p), Clock::now() + connect_timeout).is_open()) regrouping_.lost.insert(p);
}

std::optional<RankAssignment> Regroup::lead() {
  TcpListener listener(listening_, secret_);
  Others others = accept_others(listener);
  if (is_cancelled()) {
    const std::string why =
        fmt::format("rank {}, which leads the restart of the job, was asked to end", regrouping_.launch.rank);
    for (const TcpListener::Incoming& other : others) send_reply(other.socket, TcpReply::Kind::failed, why);
    turn_away(listener, why);
    return {};
  }
  put_in_order(others);
  std::vector<const TcpSocket*> sockets;
  for (const TcpListener::Incoming& other : others) sockets.push_back(&other.socket);
  const int restarts = regrouping_.launch.restarts + 1;
  return assignment(0, assign_ranks(sockets, restarts), restarts, regrouping_.launch.rank);
}

/// Refuses the processes that have connected by now.
void Regroup::turn_away(TcpListener& listener, std::string_view why) {
  const auto end = Clock::now() + turn_away_time;
  while (const std::optional<TcpListener::Incoming> late = listener.next({}, end))
    send_reply(late->socket, TcpReply::Kind::failed, why);
}

/// The processes that connect, until enough of them are here, the time is over, or it is cancelled.
Regroup::Others Regroup::accept_others(TcpListener& listener) {
  Others others;
  const auto begin = Clock::now();
  for (;;) {
    remove_ended(others);
    const bool are_all_here = awaited_ranks(others).empty();
    if (are_all_here && static_cast<int>(others.size()) + 1 >= regrouping_.options.preferred_ranks) return others;
    const auto end = begin + (are_all_here ? wait_for_lost() : max_wait());
    if (Clock::now() >= end || is_cancelled()) return others;
    std::optional<TcpListener::Incoming> incoming =
        listener.next({}, std::min<TcpSocket::Deadline>(end, Clock::now() + cancel_interval));
    if (!incoming) continue;
    remove_ended(others);  // this may be one of them, started again
    if (incoming->hello.job == 0) lose_unreachable(others);
    const std::string why = why_turned_away(incoming->hello, others);
    if (why.empty()) {
      others.push_back(std::move(*incoming));
      continue;
    }
    send_reply(incoming->socket, TcpReply::Kind::failed, fmt::format("the job restarts without this process: {}", why));
    if (regrouping_.options.on_turned_away)
      regrouping_.options.on_turned_away(
          fmt::format("turned away a process that was started as rank {}: {}", incoming->hello.rank, why));
  }
}

/// Some end while they wait: they are lost.
void Regroup::remove_ended(Others& others) {
  std::erase_if(others, [this](const TcpListener::Incoming& other) {
    if (other.socket.is_peer_open()) return false;
    if (is_member(other.hello)) regrouping_.lost.insert(other.hello.rank);
    return true;
  });
}

/// Empty if the process can join.
std::string Regroup::why_turned_away(const TcpHello& hello, const Others& others) const {
  if (hello.is_elastic == 0) return "it was started without --elastic";
  if (hello.job != 0 && !is_member(hello)) return "it is a process of another job";
  if (hello.job == 0 && hello.size != first_size_of_job())
    return fmt::format("its WORLD_SIZE is {}, and that of the job {}", hello.size, first_size_of_job());
  const bool is_here = std::any_of(others.begin(), others.end(), [&](const TcpListener::Incoming& other) {
    return other.hello.rank == hello.rank && other.hello.job == hello.job && other.socket.is_peer_open();
  });
  if (is_here || !(is_member(hello) || was_started_again(hello, others)))
    return fmt::format("rank {} is not missing", hello.rank);
  if (hello.call_checksum != regrouping_.launch.call_checksum)
    return "it was given another experiment or results folder";
  return "";
}

/// By their ranks so far. From the second restart on, the processes that were started again come last.
void Regroup::put_in_order(Others& others) const {
  const auto order = [this](const TcpListener::Incoming& other) {
    return std::pair(regrouping_.launch.restarts > 0 && other.hello.job == 0, other.hello.rank);
  };
  std::sort(others.begin(), others.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
}

std::optional<RankAssignment> Regroup::follow(int leader) const {
  TcpSocket socket = TcpSocket::try_connect(address(leader), Clock::now() + connect_timeout);
  const auto deadline = Clock::now() + (is_left(leader) ? max_wait() : std::chrono::milliseconds(0)) + send_timeout;
  while (socket.is_open()) {
    const RankResponse response = request_rank(socket, deadline);
    if (response.kind == RankResponse::Kind::assigned)
      return assignment(response.given.rank, response.given.size, response.given.restarts, leader);
    if (response.kind == RankResponse::Kind::cancelled) return {};
    // A lost rank was perhaps only slow to end; or it has left this process's connections to lead.
    if (!is_left(leader) && !response.leads) return {};
    if (!response.why.empty()) fail<RankFailed>("{}", response.why);
    if (response.kind != RankResponse::Kind::closed)
      fail<RankFailed>(
          "rank {} at {} assigned no rank to this process in time: the job goes on without it, or not at all", leader,
          to_string(address(leader)));
    socket = connect_again(leader);
  }
  return {};
}

RankResponse Regroup::request_rank(const TcpSocket& socket, TcpSocket::Deadline handshake_deadline) const {
  using Kind = RankResponse::Kind;
  switch (connecting_handshake(socket, secret_, handshake_deadline, regrouping_.options.is_cancelled).kind) {
    case HandshakeResult::Kind::done:
      break;
    case HandshakeResult::Kind::cancelled:
      return {Kind::cancelled};
    case HandshakeResult::Kind::closed:
      return {Kind::closed};
    case HandshakeResult::Kind::late:
      return {Kind::late};
    default:
      return {Kind::refused};
  }
  RankResponse response = receive_rank(socket);
  response.leads = true;
  return response;
}

/// After the handshake.
RankResponse Regroup::receive_rank(const TcpSocket& socket) const {
  using Kind = RankResponse::Kind;
  const auto deadline = Clock::now() + max_wait() + send_timeout;
  const auto response_to = [](TcpSocket::Outcome outcome) {
    return RankResponse{outcome == TcpSocket::Outcome::late ? Kind::late : Kind::closed};
  };
  const TcpHello mine = own_hello();
  if (const auto outcome = socket.write(std::as_bytes(std::span(&mine, 1)), deadline);
      outcome != TcpSocket::Outcome::done)
    return response_to(outcome);
  if (!socket.wait_for_reply(deadline, regrouping_.options.is_cancelled)) return {Kind::cancelled};
  const ReceivedReply reply = read_reply(socket, deadline, TcpReply::max_bytes);
  if (reply.outcome != TcpSocket::Outcome::done) return response_to(reply.outcome);
  if (const std::optional<TcpAssignment> given = reply.assignment(); given && given->is_possible())
    return {Kind::assigned, *given};
  return {.kind = Kind::refused,
          .given = {},
          .why = reply.header.kind == TcpReply::Kind::failed ? reply.text() : std::string()};
}

/// A leader that has closed the connection has ended, or it runs the program again, and then turns this process away.
/// Closed if it does not listen.
TcpSocket Regroup::connect_again(int leader) const {
  const auto end = Clock::now() + run_again_timeout;
  TcpSocket socket;
  while (!socket.is_open() && Clock::now() < end && !is_cancelled()) {
    std::this_thread::sleep_for(cancel_interval);
    socket = TcpSocket::try_connect(address(leader), end);
  }
  return socket;
}

std::optional<RankAssignment> Regroup::run() {
  const int rank = regrouping_.launch.rank;
  for (int leader = 0; leader < rank; ++leader) {
    if (const std::optional<RankAssignment> assignment = follow(leader)) return assignment;
    if (is_cancelled()) return {};
    regrouping_.lost.insert(leader);  // it may have ended just now
  }
  if (regrouping_.options.on_lead) regrouping_.options.on_lead(leader_address(rank));
  return lead();
}

}  // namespace

std::optional<RankAssignment> regroup(Regrouping regrouping, const TcpSocket& listening, const JobSecret& secret) {
  return Regroup(std::move(regrouping), listening, secret).run();
}

}  // namespace heddle
