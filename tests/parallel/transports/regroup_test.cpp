// Jobs of sockets that are formed anew by the processes that are left.
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"
#include "tests/support/message.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/raw_sockets.h"

namespace heddle::test {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const JobSecret secret("the job's");

/// The processes of a job that can be formed anew, each with its own connections in this process.
class ElasticJob {
 public:
  explicit ElasticJob(int size, int restarts = 0) : point_{"127.0.0.1", free_port()}, wires_(std::size_t(size)) {
    std::vector<std::thread> threads;
    for (int p = 0; p < size; ++p)
      threads.emplace_back([this, p, size, restarts] {
        const Launch launch{.rank = p, .size = size, .is_elastic = true, .restarts = restarts};
        wires_[static_cast<std::size_t>(p)] = join_by_tcp(launch, point_, {.timeout = seconds(20)}, secret);
      });
    for (std::thread& thread : threads) thread.join();
  }

  const RendezvousAddress& point() const { return point_; }
  /// The process ends.
  void kill(int p) {
    wires_[static_cast<std::size_t>(p)].reset();
    lost_.insert(p);
  }
  /// The same, and the others do not know it yet.
  void kill_unseen(int p) { wires_[static_cast<std::size_t>(p)].reset(); }
  Wire& wire(int p) { return *wires_[static_cast<std::size_t>(p)]; }
  const std::set<int>& lost() const { return lost_; }
  void set_on_lead(std::function<void(const LeaderAddress&)> on_lead) { on_lead_ = std::move(on_lead); }
  void set_on_turned_away(std::function<void(const std::string&)> report) { on_turned_away_ = std::move(report); }

  std::optional<RankAssignment> regroup(
      int p, milliseconds wait, int preferred_ranks, std::function<bool()> is_cancelled = [] { return false; }) {
    return wire(p).regroup(lost_, {.wait_for_lost = wait,
                                   .preferred_ranks = preferred_ranks,
                                   .on_lead = on_lead_,
                                   .on_turned_away = on_turned_away_,
                                   .is_cancelled = std::move(is_cancelled)});
  }
  /// The assignments of the processes that are left, by their old ranks.
  std::map<int, RankAssignment> regroup(milliseconds wait, int preferred_ranks) {
    std::map<int, std::future<RankAssignment>> running;
    for (std::size_t p = 0; p < wires_.size(); ++p)
      if (wires_[p] != nullptr)
        running[static_cast<int>(p)] =
            std::async(std::launch::async, [=, this] { return *regroup(static_cast<int>(p), wait, preferred_ranks); });
    std::map<int, RankAssignment> assignments;
    for (auto& [p, assigned] : running) assignments[p] = assigned.get();
    return assignments;
  }

 private:
  RendezvousAddress point_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::set<int> lost_;
  std::function<void(const LeaderAddress&)> on_lead_;
  std::function<void(const std::string&)> on_turned_away_;
};

std::vector<int> ranks_of(const std::map<int, RankAssignment>& assignments) {
  std::vector<int> ranks;
  for (const auto& [old, assigned] : assignments) ranks.push_back(assigned.rank);
  return ranks;
}

/// The assigned that a process finds which is started again as rank p of n.
std::future<RankAssignment> started_again(int p, int n, const RendezvousAddress& point, std::uint64_t call = 0) {
  return std::async(std::launch::async, [=] {
    try {
      (void)join_by_tcp({.rank = p, .size = n, .is_elastic = true, .call_checksum = call, .was_started_again = true},
                        point, {.timeout = seconds(20)}, secret);
    } catch (const RankAssigned& found) {
      return found.assignment();
    }
    return RankAssignment{};
  });
}

}  // namespace

TEST_CASE("regroup: the processes that are left keep their order, and the lowest one leads where it listened") {
  for (const std::vector<int>& killed : {std::vector<int>{2}, {0}, {0, 1}, {1, 3}}) {
    CAPTURE(killed.front());
    ElasticJob job(4);
    for (const int p : killed) job.kill(p);
    const std::map<int, RankAssignment> assignments = job.regroup(milliseconds(300), 4);
    std::vector<int> expected;
    for (int p = 0; p < 4 - static_cast<int>(killed.size()); ++p) expected.push_back(p);
    CHECK(ranks_of(assignments) == expected);
    for (const auto& [old, assigned] : assignments) {
      CHECK(assigned.size == 4 - static_cast<int>(killed.size()));
      CHECK(assigned.restarts == 1);
      CHECK(assigned.host == "127.0.0.1");
      CHECK(assigned.port == assignments.begin()->second.port);
      CHECK((assigned.port == job.point().port) == assignments.contains(0));
    }
  }
}

TEST_CASE("regroup: the processes meet again at their leader's address, and can be formed anew once more") {
  ElasticJob job(3);
  job.kill(0);
  const std::map<int, RankAssignment> assignments = job.regroup(milliseconds(300), 3);
  const RankAssignment& leader = assignments.at(1);
  for (int p : {1, 2}) job.kill(p);
  std::vector<std::future<std::optional<RankAssignment>>> again;
  for (int p : {0, 1})
    again.push_back(std::async(std::launch::async, [&, p] {
      const Launch launch{.rank = p, .size = 2, .is_elastic = true, .restarts = leader.restarts};
      const auto wire = join_by_tcp(launch, {leader.host, leader.port}, {.timeout = seconds(20)}, secret);
      return wire->regroup({}, {.wait_for_lost = seconds(20), .preferred_ranks = 2});
    }));
  for (int p : {0, 1}) {
    const std::optional<RankAssignment> assigned = again[static_cast<std::size_t>(p)].get();
    REQUIRE(assigned);
    CHECK(assigned->rank == p);
    CHECK(assigned->restarts == 2);
  }
}

TEST_CASE("regroup: rank 0 that is started again comes back to the process that leads, which says where it listens") {
  ElasticJob job(3);
  job.kill(0);
  std::promise<LeaderAddress> leads;
  job.set_on_lead([&](const LeaderAddress& leader) { leads.set_value(leader); });
  std::future<RankAssignment> back = std::async(std::launch::async, [&] {
    const LeaderAddress leader = leads.get_future().get();
    return started_again(0, 3, {leader.host, leader.port}).get();
  });
  const auto begin = std::chrono::steady_clock::now();
  const std::map<int, RankAssignment> assignments = job.regroup(seconds(60), 3);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(30));
  const RankAssignment assigned = back.get();
  CHECK(assigned.rank == 1);  // the one that leads is rank 0 now
  CHECK(ranks_of(assignments) == std::vector<int>{0, 2});
  for (const auto& [old, other] : assignments) {
    CHECK(other.size == 3);
    CHECK(other.port == assigned.port);
  }
  CHECK(assigned.size == 3);
  CHECK(assigned.restarts == 1);
}

TEST_CASE("regroup: a process that is started again gets its old rank, and nobody waits any longer") {
  ElasticJob job(3);
  job.kill(1);
  std::future<RankAssignment> back = started_again(1, 3, job.point());
  const auto begin = std::chrono::steady_clock::now();
  const std::map<int, RankAssignment> assignments = job.regroup(seconds(60), 3);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(30));
  CHECK(ranks_of(assignments) == std::vector<int>{0, 2});
  const RankAssignment assigned = back.get();
  CHECK(assigned.rank == 1);
  CHECK(assigned.size == 3);
  CHECK(assigned.restarts == 1);
  CHECK(assigned.port == job.point().port);
}

TEST_CASE("regroup: from the second time on, a process that is started again follows the others") {
  ElasticJob job(3, 1);
  job.kill(1);
  std::future<RankAssignment> back = started_again(1, 3, job.point());
  CHECK(ranks_of(job.regroup(seconds(60), 3)) == std::vector<int>{0, 1});
  CHECK(back.get().rank == 2);
}

TEST_CASE("regroup: all that are left go on, also where fewer would be enough, or one of them comes late") {
  ElasticJob job(4);
  job.kill(1);
  std::future<std::optional<RankAssignment>> late = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(seconds(1));
    return job.regroup(3, milliseconds(0), 1);
  });
  std::future<std::optional<RankAssignment>> second =
      std::async(std::launch::async, [&] { return job.regroup(2, milliseconds(0), 1); });
  const std::optional<RankAssignment> leader = job.regroup(0, milliseconds(0), 1);
  CHECK(leader->size == 3);
  CHECK(second.get()->rank == 1);
  CHECK(late.get()->rank == 2);
}

TEST_CASE("regroup: a process that ends while the job restarts is not waited for ever, and another one leads") {
  ElasticJob job(3);
  job.kill(2);
  job.kill_unseen(0);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(job.regroup(milliseconds(0), 3).at(1).size == 1);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(30));
}

TEST_CASE("regroup: where the process that leads ends while the others wait for it, the next one leads") {
  ElasticJob job(4);
  job.kill(3);
  job.kill_unseen(0);
  std::atomic<bool> leads = false;
  job.set_on_lead([&](const LeaderAddress&) { leads = true; });
  std::map<int, std::future<std::optional<RankAssignment>>> running;
  {
    const TcpSocket listening = TcpSocket::listen(job.point().port);  // rank 0, until it ends with its connections
    TcpListener listener(listening, secret);
    for (const int p : {1, 2})
      running[p] = std::async(std::launch::async, [&job, p] { return job.regroup(p, milliseconds(300), 4); });
    std::vector<TcpListener::Incoming> others;
    while (others.size() < 2) others.push_back(listener.next({}, soon()).value());
    std::this_thread::sleep_for(milliseconds(300));
    CHECK(!leads);
  }
  for (const int p : {1, 2}) {
    const std::optional<RankAssignment> assigned = running[p].get();
    REQUIRE(assigned);
    CHECK(assigned->rank == p - 1);
    CHECK(assigned->size == 2);
    CHECK(assigned->restarts == 1);
  }
  CHECK(leads);
}

TEST_CASE("regroup: a process that is asked to end while it waits leaves, and if it leads, the job does not restart") {
  ElasticJob job(4);
  job.kill(3);
  std::atomic<bool> is_cancelled = false;
  const auto begin = std::chrono::steady_clock::now();
  std::future<std::optional<RankAssignment>> leader = std::async(
      std::launch::async, [&] { return job.regroup(0, seconds(60), 4, [&] { return is_cancelled.load(); }); });
  std::future<std::string> follower = std::async(
      std::launch::async, [&] { return message_of<RankFailed>([&] { (void)job.regroup(1, seconds(60), 4); }); });
  CHECK_FALSE(job.regroup(2, seconds(60), 4, [] { return true; }));
  std::this_thread::sleep_for(milliseconds(500));  // the follower is connected
  is_cancelled = true;
  CHECK_FALSE(leader.get());
  CHECK(follower.get() == "rank 0, which leads the restart of the job, was asked to end");
  CHECK(std::chrono::steady_clock::now() - begin < seconds(30));
}

TEST_CASE("regroup: a process is started again whose end none of the others has noticed") {
  for (const int restarts : {0, 1}) {
    CAPTURE(restarts);
    ElasticJob job(4, restarts);
    job.kill(3);
    job.kill_unseen(2);
    std::future<RankAssignment> back = started_again(2, 4, job.point());
    CHECK(ranks_of(job.regroup(seconds(2), 3)) == std::vector<int>{0, 1});
    CHECK(back.get().rank == 2);
  }
}

TEST_CASE("regroup: a process that ends while it waits can be started again at once") {
  ElasticJob job(4);
  job.kill(3);
  std::future<RankAssignment> back = std::async(std::launch::async, [&] {
    const auto end = std::chrono::steady_clock::now() + milliseconds(500);
    CHECK_FALSE(job.regroup(2, seconds(60), 4, [&] { return std::chrono::steady_clock::now() > end; }));
    return started_again(2, 4, job.point()).get();
  });
  auto follower = std::async(std::launch::async, [&] { return job.regroup(1, seconds(2), 4); });
  CHECK(job.regroup(0, seconds(2), 4)->size == 3);
  CHECK(follower.get()->rank == 1);
  CHECK(back.get().rank == 2);
}

TEST_CASE("regroup: a process that leaves while it waits is lost, and not waited for longer than other lost ones") {
  ElasticJob job(4);
  job.kill(3);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_asked = [&] { return std::chrono::steady_clock::now() > begin + seconds(2); };
  std::future<std::optional<RankAssignment>> follower =
      std::async(std::launch::async, [&] { return job.regroup(1, seconds(4), 4); });
  std::jthread leaver([&] { CHECK_FALSE(job.regroup(2, seconds(4), 4, is_asked)); });
  CHECK(job.regroup(0, seconds(4), 4)->size == 2);
  CHECK(follower.get()->rank == 1);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(9));
}

TEST_CASE("regroup: a rank that takes the one that leads for lost waits for it, because it finishes the handshake") {
  ElasticJob job(4);
  job.kill(3);
  const auto regroup = [&](int p, const std::set<int>& lost, milliseconds delay) {
    return std::async(std::launch::async, [&job, p, lost, delay] {
      std::this_thread::sleep_for(delay);
      return job.wire(p).regroup(lost, {.wait_for_lost = milliseconds(0)});
    });
  };
  // Rank 0 has closed its connections before rank 1 noticed that rank 3 is lost, and waits for rank 2, which is slow.
  auto leader = regroup(0, {3}, milliseconds(0));
  auto next = regroup(1, {0, 3}, milliseconds(100));
  auto slow = regroup(2, {3}, seconds(4));
  for (const auto& [found, rank] : {std::pair{leader.get(), 0}, {next.get(), 1}, {slow.get(), 2}}) {
    REQUIRE(found);
    CHECK(found->rank == rank);
    CHECK(found->size == 3);
  }
}

TEST_CASE("regroup: a process is asked to end before the one that leads has noticed the failure") {
  ElasticJob job(3);
  job.kill(2);
  job.kill_unseen(0);
  const TcpSocket listening = TcpSocket::listen(job.point().port);  // rank 0, which does not accept yet
  const auto begin = std::chrono::steady_clock::now();
  const auto is_asked = [&] { return std::chrono::steady_clock::now() > begin + milliseconds(300); };
  CHECK_FALSE(job.regroup(1, seconds(60), 3, is_asked));
  CHECK(std::chrono::steady_clock::now() - begin < seconds(10));
}

TEST_CASE("regroup: a process that was started again with another experiment is turned away") {
  ElasticJob job(3);
  job.kill(2);
  std::future<std::string> other = std::async(std::launch::async, [&] {
    return message_of<RankFailed>([&] { (void)started_again(2, 3, job.point(), 77).get(); });
  });
  const std::string why = "it was given another experiment or results folder";
  std::string turned_away;
  job.set_on_turned_away([&](const std::string& what) { turned_away += what; });
  CHECK(ranks_of(job.regroup(seconds(2), 3)) == std::vector<int>{0, 1});
  CHECK(turned_away == "turned away a process that was started as rank 2: " + why);
  CHECK(other.get() == "the job restarts without this process: " + why);
}

TEST_CASE("regroup: nobody takes the rank of a process that is left, or has one in a job of another size") {
  ElasticJob job(3);
  job.kill(2);
  const auto refused = [&](const Launch& launch) {
    return std::async(std::launch::async, [&job, launch] {
      return message_of([&] { (void)join_by_tcp(launch, job.point(), {.timeout = seconds(20)}, secret); });
    });
  };
  std::future<std::string> of_left = refused({.rank = 1, .size = 3, .is_elastic = true});
  std::future<std::string> of_other = refused({.rank = 2, .size = 9, .is_elastic = true});
  std::future<std::string> not_elastic = refused({.rank = 2, .size = 3});
  const std::map<int, RankAssignment> assignments = job.regroup(seconds(2), 3);
  CHECK(assignments.at(0).size == 2);
  CHECK(assignments.at(1).rank == 1);
  const std::string without = "the job restarts without this process: ";
  CHECK(of_left.get() == without + "rank 1 is not missing");
  CHECK(of_other.get() == without + "its WORLD_SIZE is 9, and that of the job 3");
  CHECK(not_elastic.get() == without + "it was started without --elastic");
}

TEST_CASE("regroup: strangers get no rank") {
  ElasticJob job(2);
  job.kill(1);
  const TcpSocket silent = connected_to(job.point().port);
  const TcpSocket noisy = connected_to(job.point().port);
  const std::string noise(1000, 'x');
  (void)noisy.write(std::as_bytes(std::span(noise)), soon());
  const TcpSocket other = connected_to(job.point().port);
  std::future<HandshakeResult> of_other =
      std::async(std::launch::async, [&] { return connecting_handshake(other, JobSecret("another job's"), soon()); });
  const std::map<int, RankAssignment> assignments = job.regroup(milliseconds(500), 2);
  CHECK(assignments.at(0).size == 1);
  CHECK(of_other.get().kind == HandshakeResult::Kind::wrong_secret);
}

TEST_CASE("regroup: a process that comes too late is turned away, and a job that is not elastic has no assignments") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::future<std::unique_ptr<Wire>> first = std::async(std::launch::async, [&] {
    return join_by_tcp({.rank = 0, .size = 2, .restarts = 1}, point, {.timeout = seconds(20)}, secret);
  });
  CHECK_THROWS_WITH_AS(join_by_tcp({.rank = 1, .size = 2}, point, {.timeout = seconds(20)}, secret),
                       "the job has restarted without this process, which came too late", RankFailed);
  const std::unique_ptr<Wire> second =
      join_by_tcp({.rank = 1, .size = 2, .restarts = 1}, point, {.timeout = seconds(20)}, secret);
  CHECK_FALSE(second->regroup({}, {.wait_for_lost = seconds(1)}));
  CHECK_FALSE(first.get()->regroup({}, {.wait_for_lost = seconds(1)}));
}

}  // namespace heddle::test
