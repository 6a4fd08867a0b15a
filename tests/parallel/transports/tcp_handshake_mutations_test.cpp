// Strangers that send mutated handshakes to the port of a job, and to a process that connects. See
// tests/support/files/mutations.h for more of them.
#include <array>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <optional>
#include <thread>

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include "framework/error.h"
#include "tests/support/files/mutations.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/raw_sockets.h"
#include "tests/support/processes/rendezvous_peers.h"

namespace heddle::test::tcp_handshake_mutations_test {

namespace {

const JobSecret secret("of this job");

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

/// The challenge, the proof and the hello of a connection that was accepted.
std::string recorded(std::uint16_t port) {
  const TcpSocket socket = connected_to(port);
  const TcpChallenge mine;
  say(socket, mine);
  const JobSecret::Proof proof = handshake_proof(secret, TcpSide::connecting, mine, hear<TcpChallenge>(socket));
  say(socket, proof);
  REQUIRE(hear<TcpVerdict>(socket).kind == TcpVerdict::Kind::accepted);
  return bytes_of(mine) + bytes_of(proof) + bytes_of(hello_of(1, 2));
}

std::string random_bytes(std::size_t count, RandomStream& draws) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(draws.below(256));
  return bytes;
}

/// What a stranger sends without having read anything.
std::string stranger(const std::string& transcript, RandomStream& draws) {
  switch (draws.below(6)) {
    case 0:
      return transcript;
    case 1:
      return transcript.substr(0, draws.below(transcript.size()));
    case 2:
      return random_bytes(draws.below(300), draws);
    case 3:
      return bytes_of(TcpPreamble()) + random_bytes(draws.below(300), draws);
    case 4:
      return transcript + std::string(draws.below(1U << 17U), 'x');
    default:
      return mutated(transcript, "heddle w", draws);
  }
}

/// Finishes a handshake, if need be in place of one that made room for a newer connection.
void join(std::uint16_t port) {
  using Kind = HandshakeResult::Kind;
  Kind kind = Kind::closed;
  while (kind == Kind::closed) kind = connecting_handshake(connected_to(port), secret, soon()).kind;
  REQUIRE(kind == Kind::done);
}

/// Reads the other challenge, and sends a proof that is wrong in some way. Returns what it has read.
std::string guess(const TcpSocket& socket, const TcpChallenge& mine, RandomStream& draws) {
  TcpChallenge theirs;
  (void)socket.read(std::as_writable_bytes(std::span(&theirs, 1)), soon());
  JobSecret::Proof proof = handshake_proof(secret, TcpSide::connecting, mine, theirs);
  switch (draws.below(4)) {
    case 0:
      proof = handshake_proof(secret, TcpSide::accepting, mine, theirs);
      break;
    case 1:
      proof = handshake_proof(secret, TcpSide::connecting, theirs, mine);
      break;
    case 2:
      proof = handshake_proof(JobSecret(), TcpSide::connecting, mine, theirs);
      break;
    default:
      proof[draws.below(proof.size())] ^= std::byte{1} << draws.below(8);
      break;
  }
  (void)socket.write(proof, soon());
  return bytes_of(theirs);
}

std::string heard_until_end(const TcpSocket& socket, std::string heard) {
  std::array<char, 256> bytes{};
  while (const std::optional<std::size_t> count = socket.read_some(std::as_writable_bytes(std::span(bytes)))) {
    heard.append(bytes.data(), *count);
    pollfd readable{socket.descriptor(), POLLIN, 0};
    REQUIRE(::poll(&readable, 1, 20000) == 1);
  }
  return heard;
}

/// Whether the replies to a stranger are a challenge and a rejection, or end earlier.
bool is_rejected(const std::string& replies) {
  TcpVerdict rejection;
  rejection.kind = TcpVerdict::Kind::wrong_secret;
  const std::string_view preamble = "heddle w";
  if (replies.empty()) return true;
  if (!replies.starts_with(preamble)) return false;
  return replies.size() <= sizeof(TcpChallenge) || replies.substr(sizeof(TcpChallenge)) == bytes_of(rejection);
}

/// Closes the connection in such a way that the peer receives an error.
void reset(TcpSocket& socket) {
  const linger at_once{1, 0};
  (void)::setsockopt(socket.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  socket.close();
}

/// The most memory that this process has held since `begin_peak`, in KiB.
void begin_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}
std::int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::int64_t value = 0; word == "VmHWM:" && status >> value) return value;
  return 0;
}

/// Strangers that come to the port, of whom many are there at a time.
class Strangers {
 public:
  explicit Strangers(std::uint16_t port) : port_(port), transcript_(recorded(port)) {}

  /// One that is turned away, or a process that knows the secret and leaves before its hello.
  void come(RandomStream& draws) {
    const std::uint64_t kind = draws.below(10);
    if (kind == 0) return join(port_);
    Stranger& newest = present_.emplace_back(connected_to(port_), TcpChallenge(), kind < 4);
    const std::string bytes = newest.guesses ? bytes_of(newest.challenge) : stranger(transcript_, draws);
    (void)newest.socket.write(std::as_bytes(std::span(bytes)), soon());  // it may be closed meanwhile
    if (present_.size() > 32) leave(draws);
    fail<InputError>("turned away");
  }

 private:
  struct Stranger {
    Stranger(TcpSocket from, const TcpChallenge& mine, bool does_guess)
        : socket(std::move(from)), challenge(mine), guesses(does_guess) {}

    TcpSocket socket;
    TcpChallenge challenge;
    bool guesses;
  };

  /// The first that came.
  void leave(RandomStream& draws) {
    Stranger first = std::move(present_.front());
    present_.pop_front();
    std::string heard;
    if (first.guesses) heard = guess(first.socket, first.challenge, draws);
    switch (draws.below(8)) {
      case 0:
        reset(first.socket);
        break;
      case 1:
        silent_.push_back(std::move(first.socket));
        if (silent_.size() > 2 * TcpListener::max_pending) silent_.pop_front();
        break;
      default:
        first.socket.end_writing();
        REQUIRE(is_rejected(heard_until_end(first.socket, heard)));
        break;
    }
  }

  std::uint16_t port_;
  std::string transcript_;
  std::deque<Stranger> present_;
  std::deque<TcpSocket> silent_;  // more than the listener holds
};

TEST_CASE("sockets: strangers that send mutated handshakes take no memory, and the job meets all the same") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 2}, point, std::chrono::hours(24), secret);
  const auto meet = [&] {
    Joining second({1, 2}, point, std::chrono::seconds(20), secret);
    CHECK(second.ended() == "joined");
    CHECK(first.ended() == "joined");
  };
  Strangers strangers(point.port);
  begin_peak();
  const std::int64_t before = peak_kib();
  try {
    check_mutations(2000, 0.8, "turned away", [&](RandomStream& draws) { strangers.come(draws); });
  } catch (...) {  // of a check that fails
    meet();
    throw;
  }
  const std::int64_t after = peak_kib();
  if (std::getenv("HEDDLE_TEST_MUTATIONS") != nullptr)
    MESSAGE("peak memory of this process: " << before << " KiB before, " << after << " KiB after");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep freed memory
  CHECK(after - before < 8192);
#endif
  meet();
}

TEST_CASE("sockets: mutated replies never prove the secret to a process that connects") {
  check_mutations(2000, 0.8, "not proved", [&](RandomStream& draws) {
    const SocketPair pair;
    if (draws.below(64) == 0) {
      std::jthread honest([&] {
        AcceptingHandshake handshake;
        (void)end_of(handshake, pair.accepting, secret);
      });
      CHECK(connecting_handshake(pair.connecting, secret, soon()).kind == HandshakeResult::Kind::done);
      return;
    }
    const TcpChallenge challenge;
    TcpVerdict verdict;
    verdict.proof = handshake_proof(secret, TcpSide::accepting, TcpChallenge(), challenge);
    const std::string replies = bytes_of(challenge) + bytes_of(verdict);
    const std::string sent = draws.below(4) == 0 ? replies : mutated(replies, "heddle w", draws);
    say(pair.accepting, std::string_view(sent));
    pair.accepting.end_writing();
    REQUIRE(connecting_handshake(pair.connecting, secret, soon()).kind != HandshakeResult::Kind::done);
    fail<InputError>("not proved");
  });
}

}  // namespace

}  // namespace heddle::test::tcp_handshake_mutations_test
