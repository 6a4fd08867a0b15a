#include "parallel/transports/processes/tcp/rendezvous.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/ranges.h>
#include <unistd.h>

#include "framework/error.h"
#include "parallel/transports/processes/tcp/connected_ranks.h"
#include "parallel/transports/processes/tcp/network_interface.h"
#include "parallel/transports/processes/tcp/rendezvous_wait.h"
#include "parallel/transports/processes/tcp/tcp_reply.h"

namespace heddle {

namespace {

using Deadline = TcpSocket::Deadline;

// For bytes that only have to cross the network.
constexpr std::chrono::seconds reply_grace{10};
// Between two questions whether rank 0 has assigned new ranks, also while this process tries to connect.
constexpr std::chrono::milliseconds answer_interval{50};
constexpr std::chrono::seconds connect_interval{1};

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// `rank 1`, `ranks 1, 3`.
std::string names_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

class Rendezvous {
 public:
  Rendezvous(const Launch& launch, const RendezvousAddress& address, const RendezvousTimeouts& timeouts,
             const JobSecret& secret)
      : launch_(launch),
        address_(address),
        timeouts_(timeouts),
        secret_(secret),
        leader_address_(TcpSocket::resolve(address.host, address.port)),
        interface_(interface_of_rendezvous(address.interface, leader_address_, launch.leads())),
        sockets_(static_cast<std::size_t>(launch.size)),
        hellos_(static_cast<std::size_t>(launch.size)) {}

  void run_leader();
  void join_leader();
  RendezvousResult result();

 private:
  TcpSocket& socket(int p) { return sockets_[static_cast<std::size_t>(p)]; }
  TcpHello& hello_of(int p) { return hellos_[static_cast<std::size_t>(p)]; }
  std::string leader() const {
    return (launch_.was_started_again ? "the process that leads at " : "rank 0 at ") + to_string(address_);
  }
  void note(const std::string& what) const {
    if (timeouts_.on_note) timeouts_.on_note(what);
  }
  void report_wait(const std::string& what) const { note(fmt::format("rank {} waits {}", launch_.rank, what)); }
  /// Whether these processes meet because the job restarts. Those that are left can then restart it again.
  bool is_restart() const { return launch_.is_elastic && launch_.restarts > 0; }
  std::chrono::milliseconds timeout() const {
    return is_restart() ? std::min(timeouts_.timeout, timeouts_.restart_timeout) : timeouts_.timeout;
  }
  RankAssignment assignment(int rank, int size, int restarts) const {
    return {.rank = rank,
            .size = size,
            .restarts = restarts,
            .host = address_.host,
            .port = address_.port,
            .listen_host = launch_.listen_host};
  }
  [[noreturn]] static void fail_disconnected(const std::string& peer) {
    fail<RankFailed>("{} disconnected during the rendezvous", peer);
  }

  TcpSocket listen(std::uint16_t port) const;
  void fill_own_hello();
  void connect(int p, const TcpAddress& address, const std::string& peer);
  bool shake_hands(int p, const std::string& peer, Deadline end);
  void accept_higher_ranks();
  std::vector<int> missing_ranks();
  bool forgets_ended_ranks();
  void accept(TcpListener::Incoming incoming);
  bool reject_stray(TcpListener& listener, const TcpListener::Incoming& stray) const;
  void check_hello(const TcpHello& hello, const TcpAddress& from) const;
  [[noreturn]] void restart_without_missing();
  void complete_restart();
  /// Whether rank 0 of a restart has answered this process, before it is connected to all others, or has ended.
  bool has_answer() const { return is_restart() && launch_.rank > 0 && !sockets_.front().is_peer_open(); }
  void report_failure(TcpReply::Kind kind, std::string_view why);
  void await_reply(std::span<std::byte> hellos, std::chrono::milliseconds timeout);
  void check_hellos(const TcpHello& mine) const;
  TcpAddress reachable(TcpAddress address) const;

  const Launch& launch_;
  const RendezvousAddress& address_;
  const RendezvousTimeouts& timeouts_;
  const JobSecret& secret_;
  TcpAddress leader_address_;
  std::optional<NetworkInterface> interface_;  // where it was chosen
  TcpSocket listening_;
  std::vector<TcpSocket> sockets_;
  ConnectedRanks connected_{sockets_};
  std::vector<TcpHello> hellos_;
  std::set<int> ended_;                            // of a restart, while its processes meet
  std::optional<TcpListener::Incoming> incoming_;  // the last one, until it is accepted
};

void Rendezvous::run_leader() {
  listening_ = listen(address_.port);
  fill_own_hello();
  if (!secret_.is_set() && launch_.size > 1 && !is_loopback(listening_.local_address()))
    note(fmt::format("note: HEDDLE_JOB_SECRET is not set: every program that reaches {} can join this job",
                     to_string(address_)));
  try {
    accept_higher_ranks();
    for (int p = 1; p < launch_.size; ++p)
      send_reply(socket(p), TcpReply::Kind::hellos, std::as_bytes(std::span(hellos_)));
    if (is_restart()) complete_restart();
  } catch (const InputError& error) {
    report_failure(TcpReply::Kind::wrong_input, error.what());
    throw;
  } catch (const RankFailed& error) {
    report_failure(TcpReply::Kind::failed, error.what());
    throw;
  }
}

void Rendezvous::join_leader() {
  listening_ = listen(0);
  fill_own_hello();
  const TcpHello mine = hello_of(launch_.rank);
  // By a loopback address rank 0 is on this machine, where it listens at the chosen interface.
  if (interface_ && is_loopback(leader_address_)) leader_address_.host = interface_->host;
  connect(0, leader_address_, leader());
  // Rank 0 may wait for the last rank for as long as this process waited for rank 0.
  await_reply(std::as_writable_bytes(std::span(hellos_)), timeouts_.timeout + reply_grace);
  check_hellos(mine);
  try {
    for (int p = 1; p < launch_.rank; ++p) {
      const TcpAddress address = reachable(hello_of(p).address);
      connect(p, address, fmt::format("rank {} at {}", p, to_string(address)));
    }
    accept_higher_ranks();
    if (is_restart()) send_reply(socket(0), TcpReply::Kind::complete, std::string_view());
  } catch (const RankFailed& error) {
    if (!is_restart()) throw;
    if (!has_answer()) note(error.what());  // else rank 0 has noticed the end of that rank, too
  }
  if (is_restart()) await_reply({}, timeout() + reply_grace);
}

RendezvousResult Rendezvous::result() {
  const auto& mine = hello_of(launch_.rank).machine;
  const auto is_here = [&mine](const TcpHello& other) { return other.machine == mine; };
  std::vector<TcpAddress> addresses{leader_address_};
  for (int p = 1; p < launch_.size; ++p)
    addresses.push_back(launch_.rank == 0 ? hello_of(p).address : reachable(hello_of(p).address));
  return {std::move(sockets_),
          launch_.is_elastic ? std::move(listening_) : TcpSocket(),
          hello_of(0).job,
          std::move(addresses),
          static_cast<int>(std::count_if(hellos_.begin(), hellos_.begin() + launch_.rank, is_here)),
          static_cast<int>(std::count_if(hellos_.begin(), hellos_.end(), is_here))};
}

/// Listens at the address that a restart or HEDDLE_INTERFACE has chosen, otherwise at all addresses of this machine;
/// but only at the loopback address where that of rank 0 is one on every machine, which keeps other machines out.
TcpSocket Rendezvous::listen(std::uint16_t port) const {
  if (!launch_.listen_host.empty()) return TcpSocket::listen(port, TcpSocket::resolve(launch_.listen_host, 0).host);
  if (interface_) return TcpSocket::listen(port, interface_->host);
  const bool is_one_machine = address_.host == "localhost" || address_.host == host_text(leader_address_.host);
  return TcpSocket::listen(port, is_one_machine && is_loopback(leader_address_) ? leader_address_.host : 0);
}

void Rendezvous::fill_own_hello() {
  TcpHello& mine = hello_of(launch_.rank);
  mine.rank = launch_.rank;
  mine.size = launch_.size;
  mine.restarts = launch_.restarts;
  mine.is_elastic = launch_.is_elastic ? 1 : 0;
  mine.was_started_again = launch_.was_started_again ? 1 : 0;
  mine.call_checksum = launch_.call_checksum;
  if (launch_.leads()) mine.job = std::bit_cast<std::array<std::uint64_t, 4>>(JobSecret::draw_nonce())[0] | 1;
  mine.address = {interface_ ? interface_->host : 0, listening_.local_address().port};
  (void)::gethostname(mine.machine.data(), mine.machine.size() - 1);
}

void Rendezvous::connect(int p, const TcpAddress& address, const std::string& peer) {
  // The rank 0 of a restart may run its program again later than this process.
  RendezvousWait wait(is_restart() && p == 0 ? timeout() + reply_grace : timeout(), timeouts_.note_after);
  for (;;) {
    try {
      const Deadline end = std::min<Deadline>(wait.next_stop(), TcpSocket::Clock::now() + connect_interval);
      socket(p) = TcpSocket::connect(address, peer, is_restart() && p > 0 ? end : wait.next_stop());
    } catch (const RankFailed&) {
      if (p > 0 && has_answer()) throw;
      if (TcpSocket::Clock::now() < wait.next_stop()) continue;
      if (!wait.must_report()) throw;
      report_wait("for " + peer);
      continue;
    }
    if (shake_hands(p, peer, wait.deadline())) break;
    // It may have too many connections now.
    if (wait.is_over()) fail_disconnected(peer);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const Deadline end = TcpSocket::Clock::now() + timeouts_.timeout;
  if (socket(p).write(std::as_bytes(std::span(&hello_of(launch_.rank), 1)), end) != TcpSocket::Outcome::done)
    fail_disconnected(peer);
}

/// False if the peer has closed the connection before it replied.
bool Rendezvous::shake_hands(int p, const std::string& peer, Deadline end) {
  using Kind = HandshakeResult::Kind;
  const HandshakeResult result =
      connecting_handshake(socket(p), secret_, end, [this, p] { return p > 0 && has_answer(); });
  if (result.kind == Kind::cancelled) fail_disconnected(leader());
  if (result.kind == Kind::late) fail<RankFailed>("{} did not answer within {} s", peer, seconds_of(timeout()));
  if (!result.is_refusal()) return result.kind == Kind::done;
  const bool is_address_wrong = result.kind == Kind::other_program && p == 0;
  fail<InputError>("{}{} {}", is_address_wrong ? "MASTER_ADDR and MASTER_PORT: " : "", peer, in_words(result, secret_));
}

/// Accepts the connections of all higher ranks.
void Rendezvous::accept_higher_ranks() {
  TcpListener listener(listening_, secret_);
  RendezvousWait wait(timeout(), timeouts_.note_after);
  for (std::vector<int> missing = missing_ranks(); !missing.empty(); missing = missing_ranks()) {
    Deadline end = wait.next_stop();
    if (is_restart()) end = std::min(end, TcpSocket::Clock::now() + answer_interval);
    std::optional<TcpListener::Incoming> incoming;
    try {
      incoming = listener.next(sockets_, end);
    } catch (const RankFailed&) {
      if (!forgets_ended_ranks()) throw;
    }
    if (incoming) {
      if (!reject_stray(listener, *incoming)) accept(*std::move(incoming));
      continue;
    }
    if (has_answer()) fail_disconnected(leader());
    if (TcpSocket::Clock::now() < wait.next_stop()) continue;
    const std::string ranks = names_of(missing);
    if (wait.must_report()) {
      report_wait((launch_.rank == 0 ? "at " + to_string(address_) + " for " : "for ") + ranks +
                  listener.last_rejection());
      continue;
    }
    if (launch_.rank == 0 && is_restart()) restart_without_missing();
    fail<RankFailed>("{} did not connect to {} within {} s{}", ranks,
                     launch_.rank == 0 ? to_string(address_) : fmt::format("rank {}", launch_.rank),
                     seconds_of(timeout()), listener.last_rejection());
  }
  if (!ended_.empty()) restart_without_missing();
}

/// The higher ranks that have not connected yet.
std::vector<int> Rendezvous::missing_ranks() {
  std::vector<int> missing;
  for (int p = launch_.rank + 1; p < launch_.size; ++p)
    if (!socket(p).is_open() && !ended_.contains(p)) missing.push_back(p);
  return missing;
}

/// The rank 0 of a restart goes on without ranks that have connected and then ended. False in other processes.
bool Rendezvous::forgets_ended_ranks() {
  if (launch_.rank > 0 || !is_restart()) return false;
  for (int p = 1; p < launch_.size; ++p)
    if (socket(p).is_open() && !socket(p).is_peer_open()) {
      socket(p).close();
      ended_.insert(p);
    }
  return true;
}

void Rendezvous::accept(TcpListener::Incoming incoming) {
  TcpHello hello = incoming.hello;
  const TcpAddress from = incoming.socket.peer_address();
  if (hello.address.host == 0) hello.address.host = from.host;
  incoming_ = std::move(incoming);
  check_hello(hello, from);
  hello_of(hello.rank) = hello;
  socket(hello.rank) = std::move(incoming_->socket);
}

/// A rank that cannot be of this job is of another job, and receives the error; this job may still be complete.
bool Rendezvous::reject_stray(TcpListener& listener, const TcpListener::Incoming& stray) const {
  const TcpHello& hello = stray.hello;
  const TcpAddress from = stray.socket.peer_address();
  const auto reject = [&](const std::string& reason, TcpReply::Kind kind, const std::string& why) {
    listener.record_rejection(from, reason);
    send_reply(stray.socket, kind, why);
    return true;
  };
  if (hello.restarts != launch_.restarts)
    return reject(fmt::format("it has seen {} of the job's {} restarts", hello.restarts, launch_.restarts),
                  TcpReply::Kind::failed, "the job has restarted without this process, which came too late");
  if (hello.was_started_again != 0)
    return reject("it was started again, in an earlier job", TcpReply::Kind::failed,
                  "another job has begun here; that of this process, which was started again, has ended");
  if (hello.size == launch_.size && hello.rank > launch_.rank && hello.rank < launch_.size) return false;
  return reject(fmt::format("it is rank {} of {}", hello.rank, hello.size), TcpReply::Kind::wrong_input,
                fmt::format("WORLD_SIZE and RANK: rank {} of {} connected from {} to rank {} of {}", hello.rank,
                            hello.size, to_string(from), launch_.rank, launch_.size));
}

void Rendezvous::check_hello(const TcpHello& hello, const TcpAddress& from) const {
  const auto r = static_cast<std::size_t>(hello.rank);
  if (sockets_[r].is_open())
    fail<InputError>("RANK: two processes are rank {}, on {} and on {}", hello.rank, hellos_[r].machine_name(),
                     hello.machine_name());
  if (hello.address.port == 0)
    fail<RankFailed>("rank {}, which connected from {}, names no port at which it listens", hello.rank,
                     to_string(from));
}

/// Some have ended since the restart began: those that are here restart once more.
void Rendezvous::restart_without_missing() {
  std::vector<const TcpSocket*> others;
  for (int p = 1; p < launch_.size; ++p)
    if (connected_.is_there(p)) others.push_back(&socket(p));
  const int restarts = launch_.restarts + 1;
  throw RankAssigned(assignment(0, assign_ranks(others, restarts), restarts));
}

/// Waits until all are connected to each other, and tells them. Where one has ended, the others restart without it.
void Rendezvous::complete_restart() {
  const Deadline end = TcpSocket::Clock::now() + timeout();
  for (std::vector<int> others = connected_.unconnected(); !others.empty(); others = connected_.unconnected()) {
    for (int p = 1; p < launch_.size; ++p)
      if (!connected_.is_there(p)) restart_without_missing();
    if (TcpSocket::Clock::now() > end)
      fail<RankFailed>("{} did not connect to the other processes that restart the job within {} s", names_of(others),
                       seconds_of(timeout()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int p = 1; p < launch_.size; ++p) send_reply(socket(p), TcpReply::Kind::complete, std::string_view());
}

void Rendezvous::report_failure(TcpReply::Kind kind, std::string_view why) {
  if (incoming_ && incoming_->socket.is_open()) send_reply(incoming_->socket, kind, why);
  for (const TcpSocket& other : sockets_)
    if (other.is_open()) send_reply(other, kind, why);
}

/// Waits for the reply of rank 0; see receive_reply.
void Rendezvous::await_reply(std::span<std::byte> hellos, std::chrono::milliseconds timeout) {
  if (const std::optional<TcpAssignment> given = receive_reply(socket(0), leader(), hellos, timeout))
    throw RankAssigned(assignment(given->rank, given->size, given->restarts));
}

/// Checks the list of rank 0, in which this process must be, too.
void Rendezvous::check_hellos(const TcpHello& mine) const {
  for (int p = 0; p < launch_.size; ++p) {
    const TcpHello& other = hellos_[static_cast<std::size_t>(p)];
    const bool is_right = other.rank == p && other.size == launch_.size && other.address.port != 0 &&
                          (p == 0 || other.address.host != 0) &&
                          (p != launch_.rank || other.address.port == mine.address.port);
    if (!is_right)
      fail<RankFailed>("{}: its list of processes has rank {} of {} at {} in the place of rank {} of {}", leader(),
                       other.rank, other.size, to_string(other.address), p, launch_.size);
  }
}

/// A process that connected to rank 0 by a loopback address is on its machine, and can be reached there.
TcpAddress Rendezvous::reachable(TcpAddress address) const {
  if (is_loopback(address)) address.host = sockets_[0].peer_address().host;
  return address;
}

}  // namespace

RendezvousResult rendezvous(const Launch& launch, const RendezvousAddress& address, const RendezvousTimeouts& timeouts,
                            const JobSecret& secret) {
  if (launch.size < 1 || launch.size > max_ranks)
    fail<InputError>("WORLD_SIZE: expected a number of [1, {}], got {}", max_ranks, launch.size);
  if (launch.rank < 0 || launch.rank >= launch.size)
    fail<InputError>("RANK: expected one of [0, {}), got {}", launch.size, launch.rank);
  Rendezvous rendezvous(launch, address, timeouts, secret);
  if (launch.leads())
    rendezvous.run_leader();
  else
    rendezvous.join_leader();
  return rendezvous.result();
}

}  // namespace heddle
