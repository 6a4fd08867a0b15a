// Ranks that are processes: transfers of every size, and how the job reports failures. Run under mpirun.
#include <numeric>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "parallel/transports/processes/job.h"
#include "tests/support/processes/traffic.h"
#include "tests/support/transports.h"

namespace heddle::test {

namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

WorldOptions all_processes() {
  return on_transport(job->size());
}

}  // namespace

TEST_CASE("elements of every size arrive, and reductions have the bits of threads") {
  // Around the sizes that are sent with the call, around one piece of a reduction, and several pieces with an uneven
  // end.
  for (const std::int64_t count : {0, 1, 2047, 2048, 2049, 8193, 1300001})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      if (count > 10000 && dtype != DType::f32) continue;
      CAPTURE(count);
      CAPTURE(name_of(dtype));
      std::vector<std::byte> of_threads;
      run_ranks(ranks(job->size()), [&](Rank& rank) {
        std::vector<std::byte> came = traffic(rank, count, dtype);
        if (rank.index == job->rank()) of_threads = std::move(came);
      });
      run_ranks(all_processes(), [&](Rank& rank) { CHECK((traffic(rank, count, dtype) == of_threads)); });
    }
}

TEST_CASE("several collectives and messages of large tensors may be under way at once") {
  run_ranks(all_processes(), [](Rank& rank) {
    const Tensor x = Tensor::full(rank.device, {300000}, DType::f32, rank.index + 1);
    const int next = (rank.index + 1) % rank.size;
    const int before = (rank.index + rank.size - 1) % rank.size;
    Work<void> sending = rank.world.send(x, next);
    Work<Tensor> sum = rank.world.all_reduce(x);
    Communicator same = rank.world.split(0);
    Work<Tensor> again = same.all_reduce(x);
    Work<Tensor> receiving = rank.world.recv(before);
    const Tensor came = receiving.wait();
    sending.wait();
    const double total = rank.size * (rank.size + 1) / 2.0;
    CHECK(again.wait().to_doubles().back() == total);
    CHECK(sum.wait().to_doubles().front() == total);
    CHECK(came.to_doubles()[17] == before + 1);
  });
}

TEST_CASE("a failure of one rank is the same error on all processes, and the next section begins anew") {
  const auto lost = [](Rank& rank) {
    Work<void> sending =
        rank.world.send(Tensor::zeros(rank.device, {300000}, DType::f32), (rank.index + 1) % rank.size);
    Work<Tensor> started = rank.world.all_reduce(Tensor::zeros(rank.device, {300000}, DType::f32));
    if (rank.index == 1) throw std::runtime_error("a simulated failure");
    started.wait();
    sending.wait();
  };
  const auto sound = [](Rank& rank) {
    const Tensor sum = rank.world.all_reduce(Tensor::full(rank.device, {300000}, DType::f32, 1));
    CHECK(sum.to_doubles()[299999] == rank.size);
  };
  for (int i = 0; i < 3; ++i) {
    INFO("round " << i);
    CHECK_THROWS_WITH_AS(run_ranks(all_processes(), lost), "rank 1 failed: a simulated failure", RankFailed);
    run_ranks(all_processes(), sound);
  }
}

TEST_CASE("ranks that are stopped report the rank that failed and its reason") {
  std::string stopped;
  const auto body = [&](Rank& rank) {
    if (rank.index == 1) throw std::runtime_error("lost");
    try {
      rank.world.all_reduce(Tensor::zeros(rank.device, {4}, DType::f32)).wait();
    } catch (const Stopped& error) {
      stopped = error.what();
      throw;
    }
  };
  CHECK_THROWS_WITH_AS(run_ranks(all_processes(), body), "rank 1 failed: lost", RankFailed);
  if (job->rank() == 0)
    CHECK(stopped == "rank 0, call 2: all_reduce(sum) f32[4]: stopped, because rank 1 failed: lost");
}

TEST_CASE("out of memory and wrong input keep their kind on all processes") {
  WorldOptions options = all_processes();
  options.memory_budget = 1024;
  const auto hungry = [](Rank& rank) {
    if (rank.index == 1) Tensor::zeros(rank.device, {1000}, DType::f32);
    rank.world.barrier().wait();
  };
  CHECK_THROWS_AS(run_ranks(options, hungry), OutOfMemory);
  const auto wrong = [](Rank& rank) {
    if (rank.index == 1) throw InputError("data.path: expected a folder, got a file");
    rank.world.barrier().wait();
  };
  CHECK_THROWS_WITH_AS(run_ranks(all_processes(), wrong), "data.path: expected a folder, got a file", InputError);
}

TEST_CASE("if several ranks fail, all processes report the failure of the lowest one") {
  const auto body = [](Rank& rank) {
    rank.world.barrier().wait();
    throw std::runtime_error(fmt::format("cause {}", rank.index));
  };
  CHECK_THROWS_WITH_AS(run_ranks(all_processes(), body), "rank 0 failed: cause 0", RankFailed);
}

TEST_CASE("abort ends all processes with its reason, however long") {
  const std::string why(100000, 'x');
  const auto body = [&](Rank& rank) {
    if (rank.index == 1) rank.world.abort(why);
    rank.world.barrier().wait();
  };
  CHECK_THROWS_WITH_AS(run_ranks(all_processes(), body), ("rank 1 failed: " + why).c_str(), RankFailed);
}

TEST_CASE("a cycle of large messages and a collective is printed as such") {
  // Every rank waits for its neighbour, the last one in a collective.
  const int last = job->size() - 1;
  const auto ring = [last](Rank& rank) {
    const Tensor x = Tensor::zeros(rank.device, {300000}, DType::f32);
    if (rank.index == last)
      rank.world.all_reduce(x).wait();
    else
      rank.world.send(x, rank.index + 1).wait();
  };
  std::string cycle = "deadlock: ";
  for (int r = 0; r < last; ++r)
    cycle += fmt::format("rank {}, message 1: send to rank {} f32[300000] waits for rank {}; ", r, r + 1, r + 1);
  cycle += fmt::format("rank {}, call 2: all_reduce(sum) f32[300000] waits for rank 0", last);
  CHECK_THROWS_WITH_AS(run_ranks(all_processes(), ring), cycle.c_str(), RankFailed);
}

TEST_CASE("ranks that wait for a slow one are in no cycle") {
  run_ranks(all_processes(), [](Rank& rank) {
    if (rank.index == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    const Tensor sum = rank.world.all_reduce(Tensor::full(rank.device, {300000}, DType::f32, 1));
    CHECK(sum.to_doubles()[0] == rank.size);
  });
}

TEST_CASE("a section without ranks fails on all processes or on none") {
  int done = 0;
  job->together([&] { ++done; });
  CHECK(done == 1);
  const auto fails = [] {
    if (job->rank() == job->size() - 1) throw InputError("a.json: no such file");
  };
  const std::string error = fmt::format("rank {}: a.json: no such file", job->size() - 1);
  CHECK_THROWS_WITH_AS(job->together(fails), error.c_str(), InputError);
}

TEST_CASE("between sections rank 0 gathers what each process gives, also after a failure") {
  CHECK_THROWS_AS(run_ranks(all_processes(), [](Rank&) { throw 3; }), RankFailed);
  for (const std::size_t length : {0, 10, 50000}) {
    const std::vector<std::string> all = job->gather(std::string(length, static_cast<char>('a' + job->rank())));
    CHECK(all.size() == static_cast<std::size_t>(job->rank() == 0 ? job->size() : 0));
    for (std::size_t p = 0; p < all.size(); ++p) CHECK(all[p] == std::string(length, static_cast<char>('a' + p)));
  }
}

TEST_CASE("processes beyond the mesh take no part, and know how the section ended") {
  bool is_member = false;
  run_ranks(on_transport(1), [&](Rank& rank) { is_member = rank.size == 1; });
  CHECK(is_member == (job->rank() == 0));
  CHECK_THROWS_WITH_AS(run_ranks(on_transport(1), [](Rank&) { throw InputError("wrong"); }), "wrong", InputError);
}

TEST_CASE("a mesh of more ranks than the job has processes is wrong input; the error has both numbers") {
  CHECK_THROWS_WITH_AS(
      run_ranks(on_transport(7), [](Rank&) {}),
      fmt::format("mesh: dp 7 has 7 ranks, but the job has {} processes: start it with mpirun -n 7", job->size())
          .c_str(),
      InputError);
}

}  // namespace heddle::test
