// The handshake on every new connection: each side proves that it knows the secret of the job, and neither reads
// anything else from the other before. Internal to the wire of sockets.
//
//   the side that connects         the side that accepts
//   TcpChallenge              ->
//                             <-   TcpChallenge
//   JobSecret::Proof          ->
//                             <-   TcpVerdict
//
// Each message has a fixed size and is in the representation of the machine. A proof is about the name of its side and
// both challenges. Therefore a proof of another connection, or one that is sent back to its side, is wrong. The side
// that connects proves first, so that nobody who connects is given a proof with which to try out secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "parallel/transports/processes/tcp/job_secret.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

/// The first bytes that processes of this program send to each other.
struct TcpPreamble {
  std::array<char, 8> program{'h', 'e', 'd', 'd', 'l', 'e', ' ', 'w'};
  /// Changes with the messages of the handshake and the rendezvous, and with the frames of the wire.
  std::uint32_t protocol = 5;

  bool is_of_this_program() const { return program == TcpPreamble().program; }
  bool is_of_this_protocol() const { return protocol == TcpPreamble().protocol; }
};

struct TcpChallenge {
  TcpPreamble preamble;
  JobSecret::Nonce nonce = JobSecret::draw_nonce();
};

/// How the accepting side replies to a proof.
struct TcpVerdict {
  enum class Kind : std::uint32_t { accepted, wrong_secret };

  Kind kind{};
  JobSecret::Proof proof{};  // if accepted, that of the accepting side
};

enum class TcpSide { connecting, accepting };
/// The proof of one side of a connection that began with these challenges.
JobSecret::Proof handshake_proof(const JobSecret& secret, TcpSide side, const TcpChallenge& connecting,
                                 const TcpChallenge& accepting);

struct HandshakeResult {
  enum class Kind {
    done,
    closed,     // by the peer, before the end
    late,       // the peer did not reply by the deadline
    cancelled,  // before the peer replied
    other_program,
    other_protocol,
    wrong_secret,  // the peer rejects the proof of this side
    not_proved     // the peer accepts the proof of this side, and its own is wrong
  };

  Kind kind{};
  std::uint32_t protocol = 0;  // of the peer

  /// Whether the peer has responded, and is of another job or program.
  bool is_refusal() const {
    return kind == Kind::other_program || kind == Kind::other_protocol || kind == Kind::wrong_secret ||
           kind == Kind::not_proved;
  }
};
/// Why it has failed, as what a sentence says of the peer: `has another HEDDLE_JOB_SECRET, or none`.
std::string in_words(const HandshakeResult& failed, const JobSecret& own);

/// The handshake of the side that has connected. Waits until the deadline, or until it is cancelled before the peer has
/// accepted the connection.
HandshakeResult connecting_handshake(
    const TcpSocket& socket, const JobSecret& secret, TcpSocket::Deadline deadline,
    const std::function<bool()>& is_cancelled = [] { return false; });

/// The handshake of the side that has accepted. Nothing waits.
class AcceptingHandshake {
 public:
  enum class State { unfinished, done, refused };
  /// Reads what has arrived of the handshake, nothing that follows it, and replies.
  State progress(const TcpSocket& socket, const JobSecret& secret);
  /// `it speaks version 77 of the protocol between processes`; empty for a peer that is no process of this program, or
  /// has closed the connection.
  const std::string& why_refused() const { return why_; }

 private:
  State refuse(std::string why);
  State reply_to_challenge(const TcpSocket& socket);
  State reply_to_proof(const TcpSocket& socket, const JobSecret& secret);

  TcpChallenge mine_;
  TcpChallenge theirs_{.preamble = {}, .nonce = {}};
  JobSecret::Proof proof_{};
  std::size_t read_ = 0;  // bytes of the message that is being read
  bool has_challenge_ = false;
  State state_ = State::unfinished;
  std::string why_;
};

}  // namespace heddle
