// The handshake by which the processes of a job prove that they know its secret.
#include <functional>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "parallel/transports/processes/tcp/handshake.h"
#include "tests/support/processes/raw_sockets.h"

namespace heddle::test::tcp_handshake_test {

namespace {

using Kind = HandshakeResult::Kind;
using State = AcceptingHandshake::State;

const JobSecret secret("of this job");

template <class T>
T with_bit_flipped(T value, std::size_t bit) {
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  return value;
}

/// What an honest accepting side says to a peer that sends this challenge, and then the proof that `prove` makes of
/// both challenges.
using Prove = std::function<JobSecret::Proof(const TcpChallenge& mine, const TcpChallenge& theirs)>;
State accepted(const TcpChallenge& sent, const Prove& prove) {
  const SocketPair pair;
  AcceptingHandshake handshake;
  say(pair.connecting, sent);
  REQUIRE(handshake.progress(pair.accepting, secret) == State::unfinished);
  say(pair.connecting, prove(sent, hear<TcpChallenge>(pair.connecting)));
  const State state = handshake.progress(pair.accepting, secret);
  if (state == State::refused) {
    CHECK(handshake.why_refused() == "it does not know this job's HEDDLE_JOB_SECRET");
    const auto verdict = hear<TcpVerdict>(pair.connecting);
    CHECK(verdict.kind == TcpVerdict::Kind::wrong_secret);
    CHECK(verdict.proof == JobSecret::Proof{});
  }
  return state;
}

/// What an honest connecting side concludes from this challenge, and then the verdict that `judge` makes of what it
/// sent.
using Judge = std::function<TcpVerdict(const TcpChallenge& theirs, const JobSecret::Proof& proof)>;
Kind connected(const std::function<TcpChallenge(const TcpChallenge& theirs)>& challenge, const Judge& judge) {
  const SocketPair pair;
  HandshakeResult result;
  std::jthread connecting([&] { result = connecting_handshake(pair.connecting, secret, soon()); });
  const auto theirs = hear<TcpChallenge>(pair.accepting);
  say(pair.accepting, challenge(theirs));
  say(pair.accepting, judge(theirs, hear<JobSecret::Proof>(pair.accepting)));
  connecting.join();
  return result.kind;
}

TEST_CASE("sockets: a proof is the HMAC-SHA256 of RFC 4231") {
  constexpr std::string_view statement = "what do ya want for nothing?";
  const JobSecret::Proof proof = JobSecret("Jefe").prove(std::as_bytes(std::span(statement)));
  std::string text;
  for (const std::byte byte : proof) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  CHECK(text == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(JobSecret::draw_nonce() != JobSecret::draw_nonce());
}

TEST_CASE("sockets: both sides of a handshake learn whether they know the same secret, and read nothing that follows") {
  const auto met = [](const JobSecret& one, const JobSecret& other) {
    const SocketPair pair;
    AcceptingHandshake handshake;
    State state = State::unfinished;
    std::jthread accepting([&] { state = end_of(handshake, pair.accepting, other); });
    const HandshakeResult result = connecting_handshake(pair.connecting, one, soon());
    accepting.join();
    if (state == State::done) {
      say(pair.connecting, "hello");
      CHECK(handshake.progress(pair.accepting, other) == State::done);
      CHECK(hear_text(pair.accepting, 5) == "hello");
    }
    CHECK((state == State::done) == (result.kind == Kind::done));
    return result.kind;
  };
  CHECK(met(secret, secret) == Kind::done);
  CHECK(met({}, {}) == Kind::done);
  CHECK(met(secret, {}) == Kind::wrong_secret);
  CHECK(met({}, secret) == Kind::wrong_secret);
  CHECK(met(JobSecret("of this jo"), secret) == Kind::wrong_secret);
  CHECK(met(JobSecret(std::string(5000, 'x')), JobSecret(std::string(5000, 'x'))) == Kind::done);
}

TEST_CASE(
    "sockets: the accepting side refuses proofs of the other side, of other challenges and of other connections") {
  const TcpChallenge mine;
  TcpChallenge old_of_peer;
  JobSecret::Proof old_proof{};
  CHECK(accepted(mine, [&](const TcpChallenge& own, const TcpChallenge& theirs) {
          old_of_peer = theirs;
          old_proof = handshake_proof(secret, TcpSide::connecting, own, theirs);
          return old_proof;
        }) == State::done);
  // The same challenge and proof once more.
  CHECK(accepted(mine, [&](const TcpChallenge&, const TcpChallenge&) { return old_proof; }) == State::refused);
  CHECK(accepted(old_of_peer, [&](const TcpChallenge&, const TcpChallenge&) { return old_proof; }) == State::refused);
  CHECK(accepted(mine, [](const TcpChallenge& own, const TcpChallenge& theirs) {
          return handshake_proof(secret, TcpSide::accepting, own, theirs);
        }) == State::refused);
  CHECK(accepted(mine, [](const TcpChallenge& own, const TcpChallenge& theirs) {
          return handshake_proof(secret, TcpSide::connecting, theirs, own);
        }) == State::refused);
  CHECK(accepted(mine, [](const TcpChallenge&, const TcpChallenge&) { return JobSecret::Proof{}; }) == State::refused);
}

TEST_CASE("sockets: the accepting side notices every bit that was changed on the way") {
  const TcpChallenge mine;
  const Prove honest = [&](const TcpChallenge&, const TcpChallenge& theirs) {
    return handshake_proof(secret, TcpSide::connecting, mine, theirs);
  };
  for (std::size_t bit = 8 * sizeof(TcpPreamble); bit < 8 * sizeof(TcpChallenge); ++bit)
    REQUIRE(accepted(with_bit_flipped(mine, bit), honest) == State::refused);
  for (std::size_t bit = 0; bit < 8 * sizeof(JobSecret::Proof); ++bit)
    REQUIRE(accepted(mine, [&](const TcpChallenge& own, const TcpChallenge& theirs) {
              return with_bit_flipped(honest(own, theirs), bit);
            }) == State::refused);
}

TEST_CASE("sockets: a handshake that ends early is none, and takes no more bytes than have come") {
  TcpChallenge mine;
  const auto challenge = std::as_bytes(std::span(&mine, 1));
  for (std::size_t size = 0; size < challenge.size() + sizeof(JobSecret::Proof); ++size) {
    CAPTURE(size);
    SocketPair pair;
    AcceptingHandshake handshake;
    const std::size_t of_challenge = std::min(size, challenge.size());
    REQUIRE(pair.connecting.write(challenge.first(of_challenge), soon()) == TcpSocket::Outcome::done);
    REQUIRE(handshake.progress(pair.accepting, secret) == State::unfinished);
    if (of_challenge == challenge.size()) {
      const JobSecret::Proof proof =
          handshake_proof(secret, TcpSide::connecting, mine, hear<TcpChallenge>(pair.connecting));
      REQUIRE(pair.connecting.write(std::span(proof).first(size - of_challenge), soon()) == TcpSocket::Outcome::done);
      REQUIRE(handshake.progress(pair.accepting, secret) == State::unfinished);
    }
    pair.connecting.end_writing();
    REQUIRE(handshake.progress(pair.accepting, secret) == State::refused);
    REQUIRE(handshake.why_refused().empty());
  }
}

TEST_CASE("sockets: the connecting side believes no proof but the other side's, of this connection") {
  const auto own = [](const TcpChallenge&) { return TcpChallenge(); };
  const auto echo = [](const TcpChallenge& theirs) { return theirs; };
  const auto same_proof = [](const TcpChallenge&, const JobSecret::Proof& proof) {
    return TcpVerdict{TcpVerdict::Kind::accepted, proof};
  };
  CHECK(connected(own, same_proof) == Kind::not_proved);
  CHECK(connected(echo, same_proof) == Kind::not_proved);
  CHECK(connected(own, [](const TcpChallenge&, const JobSecret::Proof&) { return TcpVerdict(); }) == Kind::not_proved);
  CHECK(connected(own, [](const TcpChallenge&, const JobSecret::Proof&) {
          return TcpVerdict{.kind = static_cast<TcpVerdict::Kind>(2)};
        }) == Kind::not_proved);
  // What an honest side once said in reply to another challenge.
  const TcpChallenge old_challenge;
  CHECK(connected([&](const TcpChallenge&) { return old_challenge; },
                  [&](const TcpChallenge&, const JobSecret::Proof&) {
                    return TcpVerdict{TcpVerdict::Kind::accepted,
                                      handshake_proof(secret, TcpSide::accepting, TcpChallenge(), old_challenge)};
                  }) == Kind::not_proved);
  const auto honest = [&](const TcpChallenge& theirs) {
    return TcpVerdict{TcpVerdict::Kind::accepted, handshake_proof(secret, TcpSide::accepting, theirs, old_challenge)};
  };
  const auto old = [&](const TcpChallenge&) { return old_challenge; };
  CHECK(connected(old, [&](const TcpChallenge& theirs, const JobSecret::Proof&) { return honest(theirs); }) ==
        Kind::done);
  for (std::size_t bit = 0; bit < 8 * sizeof(TcpVerdict); ++bit)
    REQUIRE(connected(old, [&](const TcpChallenge& theirs, const JobSecret::Proof&) {
              return with_bit_flipped(honest(theirs), bit);
            }) != Kind::done);
}

TEST_CASE("sockets: the connecting side waits for a reply until its deadline") {
  const SocketPair silent;
  CHECK(connecting_handshake(silent.connecting, secret, TcpSocket::Clock::now() + std::chrono::milliseconds(20)).kind ==
        Kind::late);
  SocketPair closed;
  closed.accepting.close();
  CHECK(connecting_handshake(closed.connecting, secret, soon()).kind == Kind::closed);
}

}  // namespace

}  // namespace heddle::test::tcp_handshake_test
