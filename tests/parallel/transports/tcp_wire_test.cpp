// Processes that connect by sockets, without MPI. The suite of the transports runs over them with
// HEDDLE_TEST_TRANSPORT=sockets.
#include "parallel/transports/processes/tcp/tcp_wire.h"

#include <chrono>
#include <latch>
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "parallel/transports/join_job.h"
#include "parallel/transports/processes/job.h"
#include "parallel/transports/processes/progress_engine.h"
#include "parallel/transports/processes/tcp/tcp_connection.h"
#include "parallel/world.h"
#include "tests/support/environment_variable.h"
#include "tests/support/message.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/processes/raw_sockets.h"
#include "tests/support/processes/traffic.h"
#include "tests/support/ranks.h"

namespace heddle::test {

namespace {

WorldOptions by_sockets(int count) {
  WorldOptions options = ranks(count);
  options.transport = "processes";
  return options;
}

/// A job of two in which this process is rank 1 without a program, and says this to rank 0 while that waits: the error
/// there.
std::string error_after(const std::function<void(const TcpSocket&)>& say_to_first) {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::string error;
  std::jthread first([&] {
    Job job(join_by_tcp({0, 2}, point));
    WorldOptions options = by_sockets(2);
    options.job = &job;
    error = message_of([&] { run_ranks(options, [](Rank& rank) { rank.world.barrier().wait(); }); });
    job.leave(4);
  });
  TcpSocket to_first = joined_to(point.port);
  say(to_first, hello_of(1, 2));
  CHECK(hear<TcpReply>(to_first).kind == TcpReply::Kind::hellos);
  for (int p = 0; p < 2; ++p) CHECK(hear<TcpHello>(to_first).rank == p);
  say_to_first(to_first);
  to_first.end_writing();
  first.join();
  return error;
}

/// A whole message of these bytes.
void post(const TcpSocket& to, const MessageWriter& message) {
  say(to, TcpConnection::Header{TcpConnection::Kind::last_message_frame, 0,
                                static_cast<std::int64_t>(message.bytes().size())});
  CHECK(to.write(message.bytes(), soon()) == TcpSocket::Outcome::done);
}
MessageWriter control_message(ProgressEngine::Kind kind) {
  MessageWriter message;
  message.put(kind);
  message.put(std::uint64_t{0});  // the first section
  return message;
}
/// About the first call of all ranks.
MessageWriter message_about_call(ProgressEngine::Kind kind) {
  MessageWriter message = control_message(kind);
  message.put(std::uint64_t{0});
  message.put(std::uint64_t{1});
  message.put(false);
  return message;
}

TEST_CASE("sockets: elements of every size arrive, and reductions have the bits of threads") {
  for (const std::int64_t size : {0, 2049, 100001, fewer_if_sanitized(1300001, 300001)}) {
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

TEST_CASE("sockets: control messages do not wait for elements that are on their way to the same process") {
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

TEST_CASE("sockets: a process that has ended ends the others' waits, with an error that names its rank") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::vector<std::string> errors(3);
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < 3; ++p)
      threads.emplace_back([&, p] {
        Job job(join_by_tcp({p, 3}, point));
        if (p == 1) return;  // without a message
        WorldOptions options = by_sockets(3);
        options.job = &job;
        const auto meets = [&] { run_ranks(options, [](Rank& rank) { rank.world.barrier().wait(); }); };
        errors[static_cast<std::size_t>(p)] = message_of(meets);
        CHECK_FALSE(job.is_whole());
        CHECK(job.why_lost(1) == "rank 1: its process has ended");
        CHECK_FALSE(job.why_lost(2 - p));
        // It stays so.
        CHECK(message_of(meets).ends_with(": rank 1: its process has ended"));
        job.leave(4);
      });
  }
  CHECK(errors[0] == "rank 1: its process has ended");
  CHECK(errors[2] == "rank 1: its process has ended");
}

TEST_CASE("sockets: the end of a process that is not needed fails no section, until one needs it") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::vector<std::jthread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      Job job(join_by_tcp({p, 3}, point));
      if (p == 2) return;  // without a message
      const auto meet = [&job](int ranks) {
        return message_of([&] {
          WorldOptions options = by_sockets(ranks);
          options.job = &job;
          run_ranks(options, [](Rank& rank) { rank.world.barrier().wait(); });
        });
      };
      job.set_needed(2);
      while (!job.why_lost(2)) CHECK(meet(2) == "no error");
      CHECK(job.why_lost(2) == "rank 2: its process has ended");
      CHECK_FALSE(job.is_whole());
      CHECK(message_of([&] { job.together([] {}); }) == "no error");
      job.set_needed(3);
      CHECK(meet(3).ends_with(": rank 2: its process has ended"));
      job.leave(4);
    });
}

TEST_CASE("sockets: a process that is not needed and is late is not missing") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::latch others_have_ended(2);
  std::vector<std::jthread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      Job job(join_by_tcp({p, 3}, point));
      job.set_needed(2);
      if (p == 2) others_have_ended.wait();
      job.together([] {});
      CHECK(job.missing().empty());
      if (p < 2) others_have_ended.count_down();
      job.leave(0);
    });
}

// The timeouts are longer than a busy machine keeps a thread from running.
TEST_CASE("sockets: a process that is not needed waits for as long as the others train") {
  using namespace std::chrono_literals;
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::vector<std::jthread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      Job job(join_by_tcp({p, 3}, point), 2s);
      job.set_timeout(2s);
      job.set_needed(2);
      const auto train = [p] {
        if (p < 2) std::this_thread::sleep_for(5s);
      };
      CHECK(message_of([&] { job.together(train); }) == "no error");
      CHECK_FALSE(job.is_broken());
      CHECK(message_of([&] { job.together([] {}); }) == "no error");
      job.leave(0);
    });
}

TEST_CASE("sockets: the silent process stays the only one that is missing") {
  using namespace std::chrono_literals;
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::latch others_have_ended(2);
  std::vector<std::jthread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      Job job(join_by_tcp({p, 3}, point), 2s);
      job.set_timeout(2s);
      if (p == 2) return others_have_ended.wait();
      CHECK(message_of([&] { job.together([] {}); }) == "rank 2 did not respond within 2 s");
      CHECK(job.is_broken());
      CHECK(job.missing() == std::set<int>{2});
      job.together([] {});
      CHECK(job.missing() == std::set<int>{2});
      others_have_ended.count_down();
    });
}

TEST_CASE("sockets: a process that falls silent while the others gather is the only one that is missing") {
  using namespace std::chrono_literals;
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::latch others_have_ended(2);
  std::vector<std::jthread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      Job job(join_by_tcp({p, 3}, point), 2s);
      job.set_timeout(2s);
      job.together([] {});
      if (p == 2) return others_have_ended.wait();
      job.gather("a text");
      CHECK(message_of([&] { job.together([] {}); }) == "rank 2 did not respond within 1 s");
      CHECK(job.missing() == std::set<int>{2});
      others_have_ended.count_down();
    });
}

TEST_CASE("sockets: nothing is gathered from a process that is not needed, and the next call is not given its text") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::latch has_gathered(1);
  std::vector<std::jthread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      Job job(join_by_tcp({p, 3}, point));
      const auto gather = [&](const std::string& text) { return job.gather(fmt::format("{} of {}", text, p)); };
      job.set_needed(2);
      if (p == 2) has_gathered.wait();
      const std::vector<std::string> of_two = gather("first");
      if (p == 0) {
        CHECK(of_two == std::vector<std::string>{"first of 0", "first of 1", ""});
        has_gathered.count_down();
      }
      job.set_needed(3);
      const std::vector<std::string> of_three = gather("second");
      if (p == 0) CHECK(of_three == std::vector<std::string>{"second of 0", "second of 1", "second of 2"});
      job.leave(0);
    });
}

TEST_CASE("sockets: posted frames have left the process when a flush reports it, and no sooner") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  constexpr int sheets = 4000;  // more than the systems' buffers hold
  std::latch flush_was_tried(1);
  std::jthread second([&] {
    TcpSocket to_first = joined_to(point.port);
    say(to_first, hello_of(1, 2));
    (void)hear<TcpReply>(to_first);
    for (int p = 0; p < 2; ++p) (void)hear<TcpHello>(to_first);
    flush_was_tried.wait();
    for (int i = 0; i < sheets; ++i)
      (void)hear_text(to_first, static_cast<std::size_t>(hear<TcpConnection::Header>(to_first).bytes));
  });
  const std::unique_ptr<Wire> wire = join_by_tcp({0, 2}, point);
  CHECK(wire->flush(std::chrono::milliseconds(0)));
  const std::vector<std::byte> frame(Wire::max_frame);
  for (int i = 0; i < sheets; ++i) wire->post(1, frame, {}, false);
  CHECK_FALSE(wire->flush(std::chrono::milliseconds(10)));
  flush_was_tried.count_down();
  CHECK(wire->flush(std::chrono::seconds(20)));
}

TEST_CASE("sockets: a process that ends after a section fails the next section, and not that one") {
  const RendezvousAddress point{"127.0.0.1", free_port()};
  std::string of_ended;
  std::string of_next;
  std::latch other_is_gone(1);
  std::jthread first([&] {
    Job job(join_by_tcp({0, 2}, point));
    other_is_gone.wait();
    of_ended = message_of([&] { job.together([] {}); });
    of_next = message_of([&] { job.together([] {}); });
    job.leave(4);
  });
  TcpSocket to_first = joined_to(point.port);
  say(to_first, hello_of(1, 2));
  (void)hear<TcpReply>(to_first);
  for (int p = 0; p < 2; ++p) (void)hear<TcpHello>(to_first);
  post(to_first, control_message(ProgressEngine::Kind::ended));
  to_first.close();
  other_is_gone.count_down();
  first.join();
  CHECK(of_ended == "no error");
  CHECK(of_next == "rank 1: its process has ended");
}

TEST_CASE("sockets: processes of one machine are counted, unless LOCAL_RANK numbers them") {
  in_processes(
      3,
      [](Job& job) {
        CHECK(job.local_size() == 3);
        CHECK(job.local_rank() == job.rank());
        CHECK(job.name() == "sockets");
      },
      Connection::sockets);
  CHECK(join_by_tcp({0, 1, 5}, {"127.0.0.1", free_port()})->local_rank() == 5);
}

TEST_CASE(
    "sockets: data that no process of this program sends end the job, with an error that names the rank and the data") {
  const std::string same_build = ": all processes must run the same build of this program";
  CHECK(error_after([](const TcpSocket& to) {
          say(to, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
        }).starts_with("rank 1: it sent a frame of kind "));
  CHECK(error_after([](const TcpSocket& to) {
          say(to, TcpConnection::Header{TcpConnection::Kind::message_frame, 0, std::int64_t{1} << 60});
        }) == "rank 1: it sent part of a message, of 1152921504606846976 bytes" + same_build);
  using Kind = ProgressEngine::Kind;
  CHECK(error_after([](const TcpSocket& to) { post(to, control_message(static_cast<Kind>(99))); }) ==
        "rank 1 sent a message of kind 99" + same_build);
  CHECK(error_after([](const TcpSocket& to) {
          MessageWriter message = control_message(Kind::gathered);
          message.put(std::size_t{1} << 60);  // bytes of text
          post(to, message);
        }) == "rank 1 sent a message that ends too early" + same_build);
  CHECK(error_after([](const TcpSocket& to) {
          MessageWriter message = control_message(Kind::probe);
          message.put(std::uint64_t{1});      // its round
          message.put(std::size_t{1} << 60);  // links
          post(to, message);
        }) == "rank 1 sent a chain of 1152921504606846976 waits" + same_build);
  CHECK(error_after([](const TcpSocket& to) {
          MessageWriter message = message_about_call(Kind::content);
          message.put(2);
          post(to, message);
        }) == "rank 1 sent a message about step 2 of a call" + same_build);
  CHECK(error_after([](const TcpSocket& to) {
          MessageWriter message = message_about_call(Kind::call);
          message.put(0);
          Call call;
          MessageWriter parts;
          parts.put_call(call);
          // Up to the number of tensors, which comes last where there are none.
          message.put_bytes(std::span(parts.bytes()).first(parts.bytes().size() - sizeof(std::size_t)));
          message.put(std::size_t{1} << 60);
          post(to, message);
        }) == "rank 1 sent a message about 1152921504606846976 tensors" + same_build);
}

TEST_CASE("sockets: the other processes receive the reason of a failure, although the failed process ends at once") {
  for (int i = 0; i < 20; ++i)
    CHECK(error_after([](const TcpSocket& to) {
            MessageWriter message = control_message(ProgressEngine::Kind::failed);
            message.put(Failure::Kind::rank_failed);
            message.put_text("rank 1: a simulated failure");
            message.put(std::int32_t{-1});  // no rank was late
            post(to, message);
          }) == "rank 1: a simulated failure");
}

TEST_CASE("the environment gives a process its rank and its peers, with this precedence of names") {
  CHECK_FALSE(launch_of_environment());
  const EnvironmentVariable slurm_rank("SLURM_PROCID", "3");
  const EnvironmentVariable slurm_size("SLURM_STEP_NUM_TASKS", "4");
  const EnvironmentVariable slurm_local("SLURM_LOCALID", "1");
  const auto is = [](int rank, int size, std::optional<int> local_rank) {
    const std::optional<Launch> launch = launch_of_environment();
    REQUIRE(launch);
    CHECK(launch->rank == rank);
    CHECK(launch->size == size);
    CHECK(launch->local_rank == local_rank);
  };
  is(3, 4, 1);
  const EnvironmentVariable mpi_rank("OMPI_COMM_WORLD_RANK", "2");
  const EnvironmentVariable mpi_size("OMPI_COMM_WORLD_SIZE", "8");
  is(2, 8, {});
  const EnvironmentVariable rank("RANK", "5");
  const EnvironmentVariable size("WORLD_SIZE", "6");
  is(2, 8, {});  // there is nowhere to meet
  const EnvironmentVariable host("MASTER_ADDR", "node7");
  const EnvironmentVariable port("MASTER_PORT", "29500");
  const EnvironmentVariable local("LOCAL_RANK", "0");
  is(5, 6, 0);
}

}  // namespace

}  // namespace heddle::test
