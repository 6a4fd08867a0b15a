// Processes that meet again after a restart, of which some end meanwhile.
#include <future>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"
#include "tests/support/message.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/raw_sockets.h"

namespace heddle::test {

namespace {

using std::chrono::seconds;

const JobSecret restart_secret("the job's");
constexpr int restarts = 2;

/// The ranks of a job of four processes that has restarted twice; each says which rank it is given then.
class Meeting {
 public:
  explicit Meeting(const std::vector<int>& ranks, seconds restart_timeout = seconds(20)) {
    for (const int p : ranks)
      running_[p] = std::async(std::launch::async, [this, p, restart_timeout] {
        try {
          const Launch launch{
              .rank = p, .size = 4, .is_elastic = true, .restarts = restarts, .listen_host = "127.0.0.1"};
          (void)join_by_tcp(launch, point_, {.timeout = seconds(60), .restart_timeout = restart_timeout},
                            restart_secret);
        } catch (const RankAssigned& found) {
          return found.assignment();
        }
        return RankAssignment{};
      });
  }

  /// Joins as this rank, which listens at a port of its own, and returns its connection to rank 0.
  TcpSocket join(int rank) {
    TcpSocket socket = joined_to(point_.port, restart_secret);
    TcpHello hello = hello_of(rank, 4, listening_.local_address());
    hello.restarts = restarts;
    hello.is_elastic = 1;
    say(socket, hello);
    return socket;
  }
  /// The rank ends.
  void end(TcpSocket& socket) {
    socket.close();
    listening_.close();
  }

  void check_restarted_without_one() {
    int rank = 0;
    for (auto& [before, assigned] : running_) {
      const RankAssignment found = assigned.get();
      CHECK(found.rank == rank++);
      CHECK(found.size == 3);
      CHECK(found.restarts == restarts + 1);
      CHECK(found.port == point_.port);
      CHECK(found.listen_host == "127.0.0.1");
    }
  }

 private:
  RendezvousAddress point_{"127.0.0.1", free_port()};
  TcpSocket listening_ = TcpSocket::listen(0, htonl(INADDR_LOOPBACK));
  std::map<int, std::future<RankAssignment>> running_;
};

}  // namespace

TEST_CASE("restart: where a process ends before it is back, the others restart once more without it") {
  Meeting(std::vector{0, 1, 3}, seconds(1)).check_restarted_without_one();
}

TEST_CASE("restart: a process that ends while the others meet is not waited for") {
  // Before all are there, when it knows the others, and when it says that it is connected to them, and is not.
  enum class Moment { early, informed, connected };
  for (const Moment moment : {Moment::early, Moment::informed, Moment::connected})
    for (const int lost : {1, 2, 3}) {
      CAPTURE(static_cast<int>(moment));
      CAPTURE(lost);
      std::vector<int> others{0, 1, 2, 3};
      std::erase(others, lost);
      Meeting meeting(others);
      TcpSocket socket = meeting.join(lost);
      if (moment != Moment::early) {
        CHECK(hear<TcpReply>(socket).kind == TcpReply::Kind::hellos);
        for (int p = 0; p < 4; ++p) CHECK(hear<TcpHello>(socket).rank == p);
      }
      if (moment == Moment::connected) say(socket, TcpReply{.kind = TcpReply::Kind::complete});
      meeting.end(socket);
      const auto end = TcpSocket::Clock::now();
      meeting.check_restarted_without_one();
      CHECK(TcpSocket::Clock::now() - end < seconds(10));  // less than the 20 s of a process that has not connected
    }
}

TEST_CASE("restart: where two processes that are left cannot connect to each other, the job ends, and says so") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  const auto join = [&](int p) {
    const Launch launch{.rank = p, .size = 3, .is_elastic = true, .restarts = 1, .listen_host = "127.0.0.1"};
    return message_of([&] {
      (void)join_by_tcp(launch, point, {.timeout = seconds(60), .restart_timeout = seconds(1)}, restart_secret);
    });
  };
  std::future<std::string> first = std::async(std::launch::async, join, 0);
  std::future<std::string> last = std::async(std::launch::async, join, 2);
  TcpSocket socket = joined_to(point.port, restart_secret);
  TcpHello hello = hello_of(1, 3, {htonl(INADDR_LOOPBACK), htons(1)});  // nothing listens there
  hello.restarts = 1;
  hello.is_elastic = 1;
  say(socket, hello);
  constexpr const char* why = "ranks 1, 2 did not connect to the other processes that restart the job within 1 s";
  CHECK(first.get() == why);
  CHECK(last.get() == why);
}

}  // namespace heddle::test
