#include "parallel/transports/processes/tcp/handshake.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

namespace heddle {

static_assert(std::is_trivially_copyable_v<TcpChallenge> && sizeof(TcpChallenge) == 44);
static_assert(std::is_trivially_copyable_v<TcpVerdict> && sizeof(TcpVerdict) == 36);

namespace {

/// Replies of a few bytes, for which a new connection has room.
template <class T>
bool send_at_once(const TcpSocket& socket, const T& value) {
  return socket.write(std::as_bytes(std::span(&value, 1)), TcpSocket::Clock::now()) == TcpSocket::Outcome::done;
}

}  // namespace

JobSecret::Proof handshake_proof(const JobSecret& secret, TcpSide side, const TcpChallenge& connecting,
                                 const TcpChallenge& accepting) {
  // Names of one length, so that no two statements are the same bytes.
  constexpr std::string_view connects = "heddle: the side that connects";
  constexpr std::string_view accepts = "heddle: the side that accepts ";
  static_assert(connects.size() == accepts.size());
  std::array<std::byte, connects.size() + 2 * sizeof(TcpChallenge)> statement{};
  auto end =
      std::ranges::copy(std::as_bytes(std::span(side == TcpSide::connecting ? connects : accepts)), statement.begin())
          .out;
  for (const TcpChallenge* challenge : {&connecting, &accepting})
    end = std::ranges::copy(std::as_bytes(std::span(challenge, 1)), end).out;
  return secret.prove(statement);
}

HandshakeResult connecting_handshake(const TcpSocket& socket, const JobSecret& secret, TcpSocket::Deadline deadline,
                                     const std::function<bool()>& is_cancelled) {
  using Kind = HandshakeResult::Kind;
  using Outcome = TcpSocket::Outcome;
  const auto failure = [](Outcome outcome) {
    return HandshakeResult{outcome == Outcome::late ? Kind::late : Kind::closed};
  };
  const TcpChallenge mine;
  if (const Outcome sent = socket.write(std::as_bytes(std::span(&mine, 1)), deadline); sent != Outcome::done)
    return failure(sent);
  if (!socket.wait_for_reply(deadline, is_cancelled)) return {Kind::cancelled};
  TcpChallenge theirs{.preamble = {}, .nonce = {}};
  const std::span<std::byte> challenge = std::as_writable_bytes(std::span(&theirs, 1));
  // A peer of another kind may send less than a challenge.
  if (const Outcome read = socket.read(challenge.first(sizeof(TcpPreamble)), deadline); read != Outcome::done)
    return failure(read);
  if (!theirs.preamble.is_of_this_program()) return {Kind::other_program};
  if (!theirs.preamble.is_of_this_protocol()) return {Kind::other_protocol, theirs.preamble.protocol};
  if (const Outcome read = socket.read(challenge.subspan(sizeof(TcpPreamble)), deadline); read != Outcome::done)
    return failure(read);
  const JobSecret::Proof proof = handshake_proof(secret, TcpSide::connecting, mine, theirs);
  if (const Outcome sent = socket.write(proof, deadline); sent != Outcome::done) return failure(sent);
  TcpVerdict verdict;
  if (const Outcome read = socket.read(std::as_writable_bytes(std::span(&verdict, 1)), deadline); read != Outcome::done)
    return failure(read);
  if (verdict.kind == TcpVerdict::Kind::wrong_secret) return {Kind::wrong_secret};
  const JobSecret::Proof right = handshake_proof(secret, TcpSide::accepting, mine, theirs);
  const bool is_proved = verdict.kind == TcpVerdict::Kind::accepted && are_equal(verdict.proof, right);
  return {is_proved ? Kind::done : Kind::not_proved};
}

std::string in_words(const HandshakeResult& failed, const JobSecret& own) {
  using Kind = HandshakeResult::Kind;
  switch (failed.kind) {
    case Kind::wrong_secret:
      return own.is_set() ? "has another HEDDLE_JOB_SECRET, or none"
                          : "has a HEDDLE_JOB_SECRET, and this process has none";
    case Kind::not_proved:
      return "does not know this process's HEDDLE_JOB_SECRET";
    case Kind::other_program:
      return "is not a Heddle process";
    case Kind::other_protocol:
      return fmt::format(
          "speaks version {} of the protocol between processes, and this process version {}: all must run the same "
          "build of this program",
          failed.protocol, TcpPreamble().protocol);
    default:
      return "does not respond";
  }
}

AcceptingHandshake::State AcceptingHandshake::progress(const TcpSocket& socket, const JobSecret& secret) {
  while (state_ == State::unfinished) {
    const std::span<std::byte> message =
        has_challenge_ ? std::span<std::byte>(proof_) : std::as_writable_bytes(std::span(&theirs_, 1));
    const std::optional<std::size_t> count = socket.read_some(message.subspan(read_));
    if (!count) return refuse({});
    if (*count == 0) break;
    read_ += *count;
    if (!has_challenge_ && read_ >= sizeof(TcpPreamble) && !theirs_.preamble.is_of_this_program()) return refuse({});
    if (read_ < message.size()) continue;
    read_ = 0;
    state_ = has_challenge_ ? reply_to_proof(socket, secret) : reply_to_challenge(socket);
  }
  return state_;
}

AcceptingHandshake::State AcceptingHandshake::refuse(std::string why) {
  why_ = std::move(why);
  return state_ = State::refused;
}

AcceptingHandshake::State AcceptingHandshake::reply_to_challenge(const TcpSocket& socket) {
  has_challenge_ = true;
  // A process of another build learns from it which protocol this is.
  if (!send_at_once(socket, mine_)) return refuse({});
  if (theirs_.preamble.is_of_this_protocol()) return State::unfinished;
  return refuse(fmt::format("it speaks version {} of the protocol between processes, and this process version {}",
                            theirs_.preamble.protocol, mine_.preamble.protocol));
}

AcceptingHandshake::State AcceptingHandshake::reply_to_proof(const TcpSocket& socket, const JobSecret& secret) {
  TcpVerdict verdict;
  if (!are_equal(proof_, handshake_proof(secret, TcpSide::connecting, theirs_, mine_))) {
    verdict.kind = TcpVerdict::Kind::wrong_secret;
    (void)send_at_once(socket, verdict);
    return refuse(secret.is_set() ? "it does not know this job's HEDDLE_JOB_SECRET"
                                  : "it has a HEDDLE_JOB_SECRET, and this process has none");
  }
  verdict.proof = handshake_proof(secret, TcpSide::accepting, theirs_, mine_);
  return send_at_once(socket, verdict) ? State::done : refuse({});
}

}  // namespace heddle
