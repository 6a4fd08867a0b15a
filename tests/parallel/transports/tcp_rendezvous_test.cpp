// The rendezvous of processes by sockets, and its errors. tcp_strangers_test.cpp is about processes of other jobs and
// other programs.
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"
#include "tests/support/environment_variable.h"
#include "tests/support/message.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/raw_sockets.h"
#include "tests/support/processes/rendezvous_peers.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

TEST_CASE("sockets: a process that connected to rank 0 by a loopback address is reached at rank 0's address") {
  const FakeLeader leader;
  const TcpSocket of_second = TcpSocket::listen(0);
  // On one machine all of 127.0.0.0/8 is here: where the connection arrives shows which address was called.
  Joining third({2, 3}, {"127.0.0.5", leader.point.port});
  const TcpSocket to_third = joined_by(leader.listening);
  const auto hello = hear<TcpHello>(to_third);
  const TcpAddress by_loopback{htonl(INADDR_LOOPBACK), of_second.local_address().port};
  leader.answer(to_third, {hello_of(0, 3), hello_of(1, 3, by_loopback),
                           hello_of(2, 3, {htonl(INADDR_LOOPBACK), hello.address.port})});
  CHECK(to_string(joined_by(of_second).local_address()) == fmt::format("127.0.0.5:{}", ntohs(by_loopback.port)));
  CHECK(third.ended() == "joined");
}

TEST_CASE("sockets: ranks that contradict each other end the rendezvous, and all of them receive the error") {
  struct Case {
    TcpHello hello;
    std::string error;  // FROM: the address it came from
  };
  const std::vector<Case> cases{
      {hello_of(1, 4), "wrong input: RANK: two processes are rank 1, on node1 and on node1"},
      {hello_of(2, 4, {}), "rank failed: rank 2, which connected from FROM, names no port at which it listens"}};
  for (const Case& wrong : cases) {
    CAPTURE(wrong.error);
    const RendezvousAddress point{"127.0.0.1", free_port()};
    Joining first({0, 4}, point);
    const TcpSocket second = joined_to(point.port);
    say(second, hello_of(1, 4));
    const TcpSocket other = joined_to(point.port);
    say(other, wrong.hello);
    std::string error = wrong.error;
    if (const std::size_t at = error.find("FROM"); at != std::string::npos)
      error.replace(at, 4, to_string(other.local_address()));
    CHECK(first.ended() == error);
    const std::string head = error.substr(error.find(": ") + 2);
    CHECK(refusal_heard_by(second) == head);
    CHECK(refusal_heard_by(other) == head);
  }
}

TEST_CASE("sockets: a process of an earlier job that was started again does not take a rank of a new one") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 2}, point);
  CHECK(Joining({.rank = 1, .size = 2, .is_elastic = true, .was_started_again = true}, point).ended() ==
        "rank failed: another job has begun here; that of this process, which was started again, has ended");
  Joining second({1, 2}, point);
  CHECK(second.ended() == "joined");
  CHECK(first.ended() == "joined");
}

TEST_CASE("sockets: a job at a loopback address listens at no other") {
  const RendezvousAddress point{"127.0.0.7", free_port()};
  Joining first({0, 2}, point);
  const TcpAddress elsewhere = TcpSocket::resolve("127.0.0.1", point.port);
  Joining second({1, 2}, point);
  CHECK_THROWS_AS(TcpSocket::connect(elsewhere, "another address", TcpSocket::Clock::now()), RankFailed);
  CHECK(first.ended() == "joined");
  CHECK(second.ended() == "joined");
}

TEST_CASE("sockets: ranks listen at the chosen interface and are reached there") {
  const FakeLeader leader;
  Joining second({1, 3}, {"127.0.0.1", leader.point.port, "127.0.0.0/8"});
  const TcpSocket to_second = joined_by(leader.listening);
  const auto hello = hear<TcpHello>(to_second);
  CHECK(host_text(hello.address.host) == "127.0.0.1");
  CHECK_THROWS_AS(TcpSocket::connect(TcpSocket::resolve("127.0.0.2", ntohs(hello.address.port)), "another address",
                                     TcpSocket::Clock::now()),
                  RankFailed);
  leader.answer(to_second, {hello_of(0, 3), hello, hello_of(2, 3)});
  const TcpSocket third = joined_to(ntohs(hello.address.port));
  say(third, hello_of(2, 3));
  CHECK(second.ended() == "joined");
  const RendezvousAddress point{"127.0.0.1", free_port(), "lo"};
  Joining of_two({0, 2}, point);
  CHECK(Joining({1, 2}, point).ended() == "joined");
}

TEST_CASE("sockets: a process that disconnects early ends the rendezvous at once, with an error that names its rank") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 4}, point);
  const TcpSocket third = joined_to(point.port);
  say(third, hello_of(2, 4));
  TcpSocket second = joined_to(point.port);
  say(second, hello_of(1, 4));
  second.close();
  CHECK(first.ended() == "rank failed: rank 1 disconnected during the rendezvous");
  CHECK(refusal_heard_by(third) == "rank 1 disconnected during the rendezvous");
}

TEST_CASE("sockets: a process that connects to a wrong address, or receives an invalid reply, reports this") {
  const auto answered = [](const std::function<void(const FakeLeader&, const TcpSocket&, const TcpHello&)>& answer) {
    const FakeLeader leader;
    Joining second({1, 2}, leader.point);
    {
      const TcpSocket to_second = joined_by(leader.listening);
      answer(leader, to_second, hear<TcpHello>(to_second));
      to_second.end_writing();
      (void)is_sent_away(to_second);
    }
    std::string ended = second.ended();
    if (const std::size_t at = ended.find(leader.place()); at != std::string::npos)
      ended.replace(at, leader.place().size(), "RANK 0");
    return ended;
  };
  const auto header = [](auto kind, std::uint32_t bytes) {
    return TcpReply{.kind = static_cast<TcpReply::Kind>(kind), .bytes = bytes};
  };
  const std::string same_build = ": all processes must run the same build of this program";
  CHECK(answered([](const FakeLeader&, const TcpSocket&, const TcpHello&) {}) ==
        "rank failed: RANK 0 disconnected during the rendezvous");
  CHECK(answered([&](const FakeLeader&, const TcpSocket& to, const TcpHello&) { say(to, header(9, 0)); }) ==
        "rank failed: RANK 0 answered with something of kind 9" + same_build);
  CHECK(answered([&](const FakeLeader&, const TcpSocket& to, const TcpHello&) { say(to, header(0, 4000000000)); }) ==
        "rank failed: RANK 0 answered with a list of 4000000000 bytes" + same_build);
  CHECK(answered([&](const FakeLeader&, const TcpSocket& to, const TcpHello&) { say(to, header(2, 4000000000)); }) ==
        "rank failed: RANK 0 answered with 4000000000 bytes of text" + same_build);
  CHECK(answered([](const FakeLeader& leader, const TcpSocket& to, const TcpHello& hello) {
          leader.answer(to, {hello_of(0, 2), hello_of(0, 2, {htonl(INADDR_LOOPBACK), hello.address.port})});
        }).starts_with("rank failed: RANK 0: its list of processes has rank 0 of 2 at 127.0.0.1:"));
  CHECK(answered([](const FakeLeader& leader, const TcpSocket& to, const TcpHello&) {
          leader.answer(to, {hello_of(0, 2), hello_of(1, 2)});  // another's port
        }) == "rank failed: RANK 0: its list of processes has rank 1 of 2 at 127.0.0.1:1 in the place of rank 1 of 2");
}

TEST_CASE("sockets: missing ranks are named, and a wrong rendezvous address is reported") {
  const std::uint16_t port = free_port();
  CHECK_THROWS_WITH_AS(join_by_tcp({0, 3}, {"127.0.0.1", port}, {milliseconds(200)}),
                       fmt::format("ranks 1, 2 did not connect to 127.0.0.1:{} within 0.2 s", port).c_str(),
                       RankFailed);
  CHECK_THROWS_WITH_AS(
      join_by_tcp({1, 3}, {"127.0.0.1", port}, {milliseconds(200)}),
      fmt::format("rank 0 at 127.0.0.1:{} cannot be reached: Connection refused (it has not started, has ended, or "
                  "all ranks of its job have connected already)",
                  port)
          .c_str(),
      RankFailed);
  const TcpSocket taken = TcpSocket::listen(port);
  CHECK_THROWS_WITH_AS(join_by_tcp({0, 2}, {"127.0.0.1", port}),
                       fmt::format("MASTER_PORT: cannot listen on port {}: Address already in use", port).c_str(),
                       InputError);
  CHECK_THROWS_WITH_AS(join_by_tcp({2, 2}, {"127.0.0.1", port}), "RANK: expected one of [0, 2), got 2", InputError);
  CHECK_THROWS_WITH_AS(join_by_tcp({-1, 2}, {"127.0.0.1", port}), "RANK: expected one of [0, 2), got -1", InputError);
  CHECK_THROWS_WITH_AS(join_by_tcp({0, 0}, {"127.0.0.1", port}), "WORLD_SIZE: expected a number of [1, 1024], got 0",
                       InputError);
  CHECK_THROWS_WITH_AS(join_by_tcp({0, 2'000'000'000}, {"127.0.0.1", port}),
                       "WORLD_SIZE: expected a number of [1, 1024], got 2000000000", InputError);
  for (const int rank : {0, 1}) {
    const std::string error = message_of([&] { (void)join_by_tcp({rank, 2}, {"no.such.host.invalid", port}); });
    CHECK(error.starts_with("MASTER_ADDR: no.such.host.invalid: "));
  }
}

TEST_CASE("sockets: a process that waits for long reports once which ranks are missing, and keeps waiting") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  const auto said_by = [&](int rank) {
    std::vector<std::string> said;
    const RendezvousTimeouts timeouts{.timeout = milliseconds(200),
                                      .note_after = milliseconds(50),
                                      .on_note = [&said](const std::string& what) { said.push_back(what); }};
    CHECK_THROWS_AS(join_by_tcp({rank, 3}, point, timeouts), RankFailed);
    return said;
  };
  CHECK(said_by(0) == std::vector{fmt::format("rank 0 waits at 127.0.0.1:{} for ranks 1, 2", point.port)});
  CHECK(said_by(1) == std::vector{fmt::format("rank 1 waits for rank 0 at 127.0.0.1:{}", point.port)});
}

TEST_CASE("sockets: rank 0 sends the error about missing ranks to the ranks that connected") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  Joining first({0, 3}, point, milliseconds(500));
  Joining second({1, 3}, point, seconds(20));
  const std::string error = fmt::format("rank failed: rank 2 did not connect to 127.0.0.1:{} within 0.5 s", point.port);
  CHECK(first.ended() == error);
  CHECK(second.ended() == error);
}

TEST_CASE("the environment gives the address and the time limit of the rendezvous; incomplete variables are an error") {
  check_rendezvous_of_environment();
  const EnvironmentVariable host("MASTER_ADDR", "node7");
  CHECK_FALSE(rendezvous_address_of_environment());
  check_rendezvous_of_environment();  // set for others
  const EnvironmentVariable rank("RANK", "1");
  CHECK_THROWS_WITH_AS(check_rendezvous_of_environment(),
                       "MASTER_ADDR and MASTER_PORT: expected a host and a port, got 'node7' and nothing", InputError);
  const EnvironmentVariable port("MASTER_PORT", "29500");
  CHECK(rendezvous_address_of_environment()->host == "node7");
  CHECK(rendezvous_address_of_environment()->port == 29500);
  CHECK_THROWS_WITH_AS(check_rendezvous_of_environment(),
                       "RANK and WORLD_SIZE: expected two numbers, got '1' and nothing", InputError);
  const EnvironmentVariable size("WORLD_SIZE", "two");
  CHECK_THROWS_WITH_AS(check_rendezvous_of_environment(),
                       "RANK and WORLD_SIZE: expected two numbers, got '1' and 'two'", InputError);
  for (const char* wrong : {"70000", "0", "-1", "http", "80x"}) {
    const EnvironmentVariable no_port("MASTER_PORT", wrong);
    CHECK_THROWS_WITH_AS(rendezvous_address_of_environment(),
                         fmt::format("MASTER_PORT: expected a port of [1, 65535], got '{}'", wrong).c_str(),
                         InputError);
  }
  CHECK(rendezvous_address_of_environment()->interface.empty());
  const EnvironmentVariable interface("HEDDLE_INTERFACE", "ib0");
  CHECK(rendezvous_address_of_environment()->interface == "ib0");
  const EnvironmentVariable no_secret("HEDDLE_JOB_SECRET", "");
  CHECK_FALSE(JobSecret::of_environment().is_set());
  const EnvironmentVariable secret("HEDDLE_JOB_SECRET", "of this job");
  CHECK(JobSecret::of_environment().is_set());
  CHECK(rendezvous_timeouts_of_environment().timeout == seconds(120));
  const EnvironmentVariable timeout("HEDDLE_RENDEZVOUS_SECONDS", "7");
  CHECK(rendezvous_timeouts_of_environment().timeout == seconds(7));
  const EnvironmentVariable no_timeout("HEDDLE_RENDEZVOUS_SECONDS", "0");
  CHECK_THROWS_WITH_AS(rendezvous_timeouts_of_environment(),
                       "HEDDLE_RENDEZVOUS_SECONDS: expected a number of [1, 86400], got '0'", InputError);
}

}  // namespace heddle::test
