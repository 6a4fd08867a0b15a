// The processes of a rendezvous by sockets: one that joins in a thread of its own, and a rank 0 that the test plays.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"
#include "tests/support/processes/raw_sockets.h"

namespace heddle::test {

/// Joins a job in a thread of its own, and keeps the result: the text of the error, after its class.
class Joining {
 public:
  Joining(const Launch& launch, const RendezvousAddress& point,
          std::chrono::milliseconds timeout = std::chrono::seconds(20), const JobSecret& secret = {})
      : thread_([this, launch, point, timeout, secret] {
          try {
            wire_ = join_by_tcp(launch, point, {.timeout = timeout}, secret);
            ended_ = "joined";
          } catch (const InputError& error) {
            ended_ = std::string("wrong input: ") + error.what();
          } catch (const RankFailed& error) {
            ended_ = std::string("rank failed: ") + error.what();
          }
        }) {}

  const std::string& ended() {
    if (thread_.joinable()) thread_.join();
    return ended_;
  }

 private:
  std::string ended_;
  std::unique_ptr<Wire> wire_;
  std::jthread thread_;
};

/// A test that is rank 0 of a job, for one other.
struct FakeLeader {
  TcpSocket listening = TcpSocket::listen(0);
  RendezvousAddress point{"127.0.0.1", ntohs(listening.local_address().port)};

  void answer(const TcpSocket& to, const std::vector<TcpHello>& hellos) const {
    say(to, TcpReply{.kind = TcpReply::Kind::hellos,
                     .bytes = static_cast<std::uint32_t>(hellos.size() * sizeof(TcpHello))});
    for (const TcpHello& hello : hellos) say(to, hello);
  }
  std::string place() const { return "rank 0 at 127.0.0.1:" + std::to_string(point.port); }
};

inline std::string refusal_heard_by(const TcpSocket& socket) {
  const auto answer = hear<TcpReply>(socket);
  CHECK(answer.kind != TcpReply::Kind::hellos);
  return hear_text(socket, answer.bytes);
}

}  // namespace heddle::test
