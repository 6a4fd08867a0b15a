// Processes that meet by sockets, without MPI. The suite of the transports runs over them with
// HEDDLE_TEST_TRANSPORT=sockets.
#include "parallel/tcp/tcp_wire.h"

#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

#include "parallel/processes.h"
#include "parallel/tcp/tcp_socket.h"
#include "parallel/world.h"
#include "tests/support/local_job.h"
#include "tests/support/ranks.h"
#include "tests/support/traffic.h"

namespace heddle::test {

namespace {

using std::chrono::milliseconds;

WorldOptions by_sockets(int count) {
  WorldOptions options = ranks(count);
  options.transport = "mpi";
  return options;
}

/// A variable of the environment while this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST_CASE("sockets: elements of every size arrive, and reductions have the bits of threads") {
  for (const std::int64_t size : {0, 2049, 100001, 1300001}) {
    CAPTURE(size);
    std::vector<std::vector<std::byte>> of_threads(3);
    run_ranks(ranks(3),
              [&](Rank& rank) { of_threads[static_cast<std::size_t>(rank.index)] = traffic(rank, size, DType::f32); });
    run_in_processes(
        by_sockets(3),
        [&](Rank& rank) {
          CHECK((traffic(rank, size, DType::f32) == of_threads[static_cast<std::size_t>(rank.index)]));
        },
        Connection::sockets);
  }
}

TEST_CASE("sockets: words do not wait for elements that are on their way to the same process") {
  run_in_processes(
      by_sockets(2),
      [](Rank& rank) {
        const Tensor large = Tensor::full(rank.device, {5000000}, DType::f32, rank.index);
        Work<Tensor> exchange = rank.world.exchange(large, 1 - rank.index);
        for (int i = 0; i < 50; ++i) rank.world.barrier().wait();
        CHECK(exchange.wait().to_doubles()[4999999] == 1 - rank.index);
      },
      Connection::sockets);
}

TEST_CASE("sockets: a process that is gone ends the others' waits, by its rank") {
  const MeetingPoint point{"127.0.0.1", free_port()};
  std::vector<std::string> errors(3);
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < 3; ++p)
      threads.emplace_back([&, p] {
        Processes job(join_by_tcp({p, 3}, point));
        if (p == 1) return;  // without a word
        WorldOptions options = by_sockets(3);
        options.processes = &job;
        errors[static_cast<std::size_t>(p)] =
            message_of([&] { run_ranks(options, [](Rank& rank) { rank.world.barrier().wait(); }); });
        job.leave(4);
      });
  }
  CHECK(errors[0] == "rank 1: its process is gone");
  CHECK(errors[2] == "rank 1: its process is gone");
}

TEST_CASE("sockets: processes of one machine are counted, unless LOCAL_RANK tells their places") {
  in_processes(
      3,
      [](Processes& job) {
        CHECK(job.local_size() == 3);
        CHECK(job.local_rank() == job.rank());
        CHECK(job.name() == "sockets");
      },
      Connection::sockets);
  CHECK(join_by_tcp({0, 1, 5}, {"127.0.0.1", free_port()})->local_rank() == 5);
}

TEST_CASE("sockets: who does not come is named, and what is wrong with the meeting point is told") {
  const std::uint16_t port = free_port();
  CHECK_THROWS_WITH_AS(join_by_tcp({0, 3}, {"127.0.0.1", port}, milliseconds(200)),
                       fmt::format("ranks 1, 2 did not come to 127.0.0.1:{} within 0.2 s", port).c_str(), RankFailed);
  CHECK_THROWS_WITH_AS(join_by_tcp({1, 3}, {"127.0.0.1", port}, milliseconds(200)),
                       fmt::format("rank 0 at 127.0.0.1:{} cannot be reached: Connection refused", port).c_str(),
                       RankFailed);
  const TcpSocket taken = TcpSocket::listen(port, 1);
  CHECK_THROWS_WITH_AS(join_by_tcp({0, 2}, {"127.0.0.1", port}),
                       fmt::format("MASTER_PORT: cannot listen on port {}: Address already in use", port).c_str(),
                       InputError);
  CHECK_THROWS_WITH_AS(join_by_tcp({2, 2}, {"127.0.0.1", port}), "RANK: expected one of [0, 2), got 2", InputError);
}

TEST_CASE("the environment tells a process its rank and where the others are, in this order of names") {
  CHECK_FALSE(launch_of_environment());
  const Variable slurm_rank("SLURM_PROCID", "3");
  const Variable slurm_size("SLURM_STEP_NUM_TASKS", "4");
  const Variable slurm_local("SLURM_LOCALID", "1");
  const auto is = [](int rank, int size, std::optional<int> local_rank) {
    const std::optional<Launch> launch = launch_of_environment();
    REQUIRE(launch);
    CHECK(launch->rank == rank);
    CHECK(launch->size == size);
    CHECK(launch->local_rank == local_rank);
  };
  is(3, 4, 1);
  const Variable mpi_rank("OMPI_COMM_WORLD_RANK", "2");
  const Variable mpi_size("OMPI_COMM_WORLD_SIZE", "8");
  is(2, 8, {});
  const Variable rank("RANK", "5");
  const Variable size("WORLD_SIZE", "6");
  is(2, 8, {});  // there is nowhere to meet
  CHECK_FALSE(meeting_point_of_environment());
  const Variable host("MASTER_ADDR", "node7");
  const Variable port("MASTER_PORT", "29500");
  const Variable local("LOCAL_RANK", "0");
  is(5, 6, 0);
  CHECK(meeting_point_of_environment()->host == "node7");
  CHECK(meeting_point_of_environment()->port == 29500);
  const Variable no_port("MASTER_PORT", "70000");
  CHECK_THROWS_WITH_AS(meeting_point_of_environment(), "MASTER_PORT: expected a port, got '70000'", InputError);
}

}  // namespace

}  // namespace heddle::test
