// Sends that have not been waited for yet.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "parallel/communicator/communicator.h"
#include "tests/support/transports.h"

namespace heddle::test::communicator_sends_test {

namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

// Small tensors are sent with the call, large ones are requested.
constexpr std::int64_t sizes[] = {1, 0, 20000, 3, 300, 70000};

std::int64_t size_of_message(std::int64_t i) {
  return sizes[static_cast<std::size_t>(i) % std::size(sizes)];
}

Tensor message(Rank& rank, int from, std::int64_t i) {
  return Tensor::from_host(rank.device, {size_of_message(i)},
                           values<float>(from + static_cast<int>(i), size_of_message(i)));
}

}  // namespace

TEST_CASE("a receiver that does not receive yet does not delay the sender, whatever the sizes") {
  on_ranks(2, [](Rank& rank) {
    constexpr std::int64_t count = 12;
    std::vector<Work<void>> sent;
    if (rank.index == 0)
      for (std::int64_t i = 0; i < count; ++i) sent.push_back(rank.world.send(message(rank, 0, i), 1));
    // The receiver comes here before it takes anything: a sender that were held up would never come.
    rank.world.barrier().wait();
    if (rank.index == 1)
      for (std::int64_t i = 0; i < count; ++i)
        CHECK(rank.world.recv(0).wait().to_host<float>() == message(rank, 0, i).to_host<float>());
    for (Work<void>& work : sent) work.wait();
  });
}

TEST_CASE("a sent tensor is charged to its sender until the send is waited for, and then freed") {
  on_ranks(2, [](Rank& rank) {
    rank.world.barrier().wait();
    const std::int64_t before = rank.device.meter().live().total();
    const auto held = [&] { return rank.device.meter().live().total() - before; };
    for (const std::int64_t size : {8, 100000}) {
      if (rank.index == 0) {
        Tensor x = Tensor::zeros(rank.device, {size}, DType::f32);
        Work<void> sent = rank.world.send(x, 1);
        x = Tensor();
        CHECK(held() == 4 * size);
        rank.world.barrier().wait();  // the receiver has it
        CHECK(held() == 4 * size);
        sent.wait();
        CHECK(held() == 0);
      } else {
        const Tensor came = rank.world.recv(0);
        CHECK(held() == 4 * size);
        rank.world.barrier().wait();
      }
    }
  });
}

TEST_CASE("hundreds of unfinished sends of all sizes to all ranks, with collectives between them") {
  for (const int count : {2, 4})
    on_ranks(count, [](Rank& rank) {
      constexpr std::int64_t messages = fewer_if_sanitized(150, 60);
      rank.world.barrier().wait();
      const std::int64_t before = rank.device.meter().live().total();
      {
        std::vector<Work<void>> sent;
        for (std::int64_t i = 0; i < messages; ++i) {
          for (int to = 0; to < rank.size; ++to)
            if (to != rank.index) sent.push_back(rank.world.send(message(rank, rank.index, i), to));
          if (i % 50 == 0) CHECK(rank.world.all_reduce(rows_of(rank, 1, 1)).wait().numel() == 1);
        }
        for (int from = 0; from < rank.size; ++from)
          for (std::int64_t i = 0; from != rank.index && i < messages; ++i)
            CHECK(rank.world.recv(from).wait().to_host<float>() == message(rank, from, i).to_host<float>());
        for (Work<void>& work : sent) work.wait();
      }
      CHECK(rank.device.meter().live().total() == before);
    });
}

TEST_CASE("a send that is dropped unfinished has begun: a small message arrives") {
  on_ranks(2, [](Rank& rank) {
    if (rank.index == 0) {
      { const Work<void> dropped = rank.world.send(rows_of(rank, 1, 2), 1); }
      rank.world.send(rows_of(rank, 2, 2), 1).wait();
    } else {
      CHECK(rank.world.recv(0).wait().to_host<float>() == values<float>(0, 2));
      CHECK(rank.world.recv(0).wait().to_host<float>() == values<float>(0, 4));
    }
  });
}

TEST_CASE("a receive that is dropped unfinished takes nothing, and its sender fails") {
  fails_on_ranks(
      2,
      [](Rank& rank) {
        if (rank.index == 0) rank.world.send(rows_of(rank, 100, 1000), 1).wait();
        if (rank.index == 1) {
          const Work<Tensor> dropped = rank.world.recv(0);
        }
      },
      "rank 0, message 1: send to rank 1 f32[100,1000]: rank 1 has already finished");
}

}  // namespace heddle::test::communicator_sends_test
