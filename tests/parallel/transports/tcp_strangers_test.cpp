// Connections of strangers to the ports of a job: other programs, processes of other jobs, and processes that do not
// know its secret. They do not disturb the job. tcp_handshake_mutations_test.cpp sends many more.
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "parallel/transports/processes/tcp/tcp_wire.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/raw_sockets.h"
#include "tests/support/processes/rendezvous_peers.h"

namespace heddle::test::tcp_strangers_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("sockets: unknown connections delay no process, whether they are silent, send or stop in the middle") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 2}, point);
  const TcpSocket silent = connected_to(point.port);
  const TcpSocket talking = connected_to(point.port);
  say(talking, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: " + std::string(sizeof(TcpHello), '?') + "\r\n\r\n");
  const TcpSocket stopping = connected_to(point.port);
  say(stopping, TcpPreamble());
  const TcpSocket leaving = connected_to(point.port);
  say(leaving, "heddle");
  leaving.end_writing();
  CHECK(is_sent_away(talking));
  CHECK(is_sent_away(leaving));
  const auto begin = TcpSocket::Clock::now();
  Joining second({1, 2}, point);
  CHECK(first.ended() == "joined");
  CHECK(second.ended() == "joined");
  CHECK(TcpSocket::Clock::now() - begin < TcpListener::handshake_timeout);
}

TEST_CASE("sockets: a connection that sends nothing is closed after a while, and counts as no rank") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 2}, point, seconds(5));
  const TcpSocket silent = connected_to(point.port);
  const auto begin = TcpSocket::Clock::now();
  CHECK(is_sent_away(silent));
  CHECK(TcpSocket::Clock::now() - begin > TcpListener::handshake_timeout - milliseconds(100));
  CHECK(TcpSocket::Clock::now() - begin < TcpListener::handshake_timeout + milliseconds(1500));
  CHECK(first.ended() == fmt::format("rank failed: rank 1 did not connect to 127.0.0.1:{} within 5 s", point.port));
}

TEST_CASE("sockets: a process that knows the secret may be paused before it says which rank it is") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 2}, point);
  const TcpSocket paused = joined_to(point.port);
  std::this_thread::sleep_for(TcpListener::handshake_timeout + milliseconds(500));
  say(paused, hello_of(1, 2));
  CHECK(first.ended() == "joined");
}

TEST_CASE("sockets: unknown connections delay no other process either") {
  const FakeLeader leader;
  Joining second({1, 3}, leader.point);
  const TcpSocket to_second = joined_by(leader.listening);
  const auto hello = hear<TcpHello>(to_second);
  CHECK(hello.rank == 1);
  CHECK(hello.size == 3);
  const std::uint16_t port = ntohs(hello.address.port);
  const TcpSocket silent = connected_to(port);
  const TcpSocket talking = connected_to(port);
  say(talking, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n");
  TcpHello listed = hello;
  listed.address.host = htonl(INADDR_LOOPBACK);
  leader.answer(to_second, {hello_of(0, 3), listed, hello_of(2, 3)});
  const TcpSocket third = joined_to(port);
  say(third, hello_of(2, 3));
  CHECK(second.ended() == "joined");
}

TEST_CASE("sockets: a rank that cannot be of this job receives the error, and the job waits on") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 4}, point, seconds(3));
  std::string last;
  for (const TcpHello& stray : {hello_of(2, 5), hello_of(4, 4), hello_of(0, 4), hello_of(-1, 4)}) {
    const TcpSocket socket = joined_to(point.port);
    say(socket, stray);
    last = to_string(socket.local_address());
    CHECK(refusal_heard_by(socket) == fmt::format("WORLD_SIZE and RANK: rank {} of {} connected from {} to rank 0 of 4",
                                                  stray.rank, stray.size, last));
    CHECK(is_sent_away(socket));
  }
  CHECK(first.ended() == fmt::format("rank failed: ranks 1, 2, 3 did not connect to 127.0.0.1:{} within 3 s; a process "
                                     "at {} was turned away: it is rank -1 of 4",
                                     point.port, last));
}

TEST_CASE("sockets: a process of another build is turned away, and learns which version is spoken") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 2}, point, seconds(3));
  const TcpSocket other = connected_to(point.port);
  TcpChallenge challenge;
  challenge.preamble.protocol = 77;
  say(other, challenge);
  CHECK(hear<TcpChallenge>(other).preamble.is_of_this_protocol());
  CHECK(is_sent_away(other));
  CHECK(
      first.ended() ==
      fmt::format("rank failed: rank 1 did not connect to 127.0.0.1:{} within 3 s; a process at {} was turned away: it "
                  "speaks version 77 of the protocol between processes, and this process version 5",
                  point.port, to_string(other.local_address())));
}

TEST_CASE("sockets: a process with another secret ends with an error, and the job meets without it") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  const JobSecret right("of this job");
  Joining first({0, 2}, point, seconds(20), right);
  const auto refused = [&](const JobSecret& secret, const std::string& why) {
    Joining stranger({1, 2}, point, seconds(20), secret);
    CHECK(stranger.ended() == fmt::format("wrong input: rank 0 at 127.0.0.1:{} {}", point.port, why));
  };
  refused(JobSecret("of another job"), "has another HEDDLE_JOB_SECRET, or none");
  refused(JobSecret(), "has a HEDDLE_JOB_SECRET, and this process has none");
  Joining second({1, 2}, point, seconds(20), right);
  CHECK(second.ended() == "joined");
  CHECK(first.ended() == "joined");
}

TEST_CASE("sockets: rank 0 names the last process that it turned away because of its secret") {
  const auto missed = [](const JobSecret& own, const JobSecret& other) {
    const RendezvousAddress point{"127.0.0.1", free_port()};
    Joining first({0, 2}, point, seconds(2), own);
    const TcpSocket stranger = connected_to(point.port);
    CHECK(connecting_handshake(stranger, other, soon()).kind == HandshakeResult::Kind::wrong_secret);
    const std::string ended = first.ended();
    const std::string head = fmt::format(
        "rank failed: rank 1 did not connect to 127.0.0.1:{} within 2 s; a process at {} was turned away: ", point.port,
        to_string(stranger.local_address()));
    CHECK(ended.starts_with(head));
    return ended.substr(std::min(head.size(), ended.size()));
  };
  CHECK(missed(JobSecret("of this job"), JobSecret("of another")) == "it does not know this job's HEDDLE_JOB_SECRET");
  CHECK(missed(JobSecret(), JobSecret("of another")) == "it has a HEDDLE_JOB_SECRET, and this process has none");
}

TEST_CASE("sockets: all ranks of a job ask each other for the secret") {
  const FakeLeader leader;
  const JobSecret right("of this job");
  Joining second({1, 3}, leader.point, seconds(20), right);
  const TcpSocket to_second = joined_by(leader.listening, right);
  TcpHello listed = hear<TcpHello>(to_second);
  listed.address.host = htonl(INADDR_LOOPBACK);
  leader.answer(to_second, {hello_of(0, 3), listed, hello_of(2, 3)});
  const std::uint16_t port = ntohs(listed.address.port);
  const TcpSocket stranger = connected_to(port);
  CHECK(connecting_handshake(stranger, JobSecret("of another"), soon()).kind == HandshakeResult::Kind::wrong_secret);
  CHECK(is_sent_away(stranger));
  const TcpSocket third = joined_to(port, right);
  say(third, hello_of(2, 3));
  CHECK(second.ended() == "joined");
}

TEST_CASE("sockets: more silent strangers than a listener holds do not keep the job from meeting") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  const JobSecret secret("of this job");
  Joining first({0, 3}, point, seconds(20), secret);
  std::vector<TcpSocket> silent;
  for (std::size_t i = 0; i < 3 * TcpListener::max_pending; ++i) {
    silent.push_back(connected_to(point.port));
    if (i % 2 == 0) say(silent.back(), TcpPreamble());
  }
  const auto begin = TcpSocket::Clock::now();
  Joining second({1, 3}, point, seconds(20), secret);
  Joining third({2, 3}, point, seconds(20), secret);
  CHECK(first.ended() == "joined");
  CHECK(second.ended() == "joined");
  CHECK(third.ended() == "joined");
  CHECK(TcpSocket::Clock::now() - begin < TcpListener::handshake_timeout);
}

TEST_CASE("sockets: a stranger that sends a byte now and then is closed as early as one that sends nothing") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 2}, point, seconds(4));
  const TcpSocket slow = connected_to(point.port);
  const TcpChallenge challenge;
  const auto bytes = std::as_bytes(std::span(&challenge, 1));
  const auto begin = TcpSocket::Clock::now();
  std::size_t sent = 0;
  while (sent < bytes.size() && slow.write(bytes.subspan(sent, 1), soon()) == TcpSocket::Outcome::done) {
    ++sent;
    std::this_thread::sleep_for(milliseconds(100));
  }
  CHECK(sent < bytes.size());
  CHECK(TcpSocket::Clock::now() - begin < TcpListener::handshake_timeout + milliseconds(1500));
  CHECK(first.ended() == fmt::format("rank failed: rank 1 did not connect to 127.0.0.1:{} within 4 s", point.port));
}

TEST_CASE("sockets: a job without a secret that other machines could reach reports this once; others do not") {
  const auto notes = [](const std::string& host, const JobSecret& secret, const std::string& interface) {
    std::vector<std::string> said;
    const RendezvousTimeouts timeouts{.timeout = milliseconds(50),
                                      .on_note = [&said](const std::string& what) { said.push_back(what); }};
    const RendezvousAddress point{host, free_port(), interface};
    CHECK_THROWS_AS(join_by_tcp({0, 2}, point, timeouts, secret), RankFailed);
    for (std::string& text : said)
      if (const std::size_t at = text.find(fmt::format(":{}", point.port)); at != std::string::npos)
        text.replace(at, std::string::npos, ":PORT" + text.substr(text.find(' ', at)));
    return said;
  };
  CHECK(notes("0.0.0.0", {}, "") ==
        std::vector<std::string>{
            "note: HEDDLE_JOB_SECRET is not set: every program that reaches 0.0.0.0:PORT can join this job"});
  CHECK(notes("0.0.0.0", JobSecret("of this job"), "").empty());
  CHECK(notes("127.0.0.1", {}, "").empty());
  CHECK(notes("localhost", {}, "").empty());
  CHECK(notes("0.0.0.0", {}, "lo").empty());
}

TEST_CASE("sockets: a process that connects to another program, another build or an impostor reports this") {
  const auto answered = [](const auto& answer) {
    const FakeLeader leader;
    Joining second({1, 2}, leader.point, seconds(20), JobSecret("of this job"));
    const TcpSocket to_second = accepted_by(leader.listening);
    const auto challenge = hear<TcpChallenge>(to_second);
    answer(to_second, challenge);
    std::string ended = second.ended();
    if (const std::size_t at = ended.find(leader.place()); at != std::string::npos)
      ended.replace(at, leader.place().size(), "RANK 0");
    return ended;
  };
  CHECK(answered([](const TcpSocket& to, const TcpChallenge&) { say(to, "HTTP/1.1 400 Bad Request\r\n\r\n"); }) ==
        "wrong input: MASTER_ADDR and MASTER_PORT: RANK 0 is not a Heddle process");
  CHECK(answered([](const TcpSocket& to, const TcpChallenge&) {
          say(to, TcpPreamble{.program = TcpPreamble().program, .protocol = 6});
        }) ==
        "wrong input: RANK 0 speaks version 6 of the protocol between processes, and this process version 5: all must "
        "run the same build of this program");
  CHECK(answered([](const TcpSocket& to, const TcpChallenge&) {
          say(to, TcpChallenge());
          (void)hear<JobSecret::Proof>(to);
          say(to, TcpVerdict());
        }) == "wrong input: RANK 0 does not know this process's HEDDLE_JOB_SECRET");
}

}  // namespace heddle::test::tcp_strangers_test
