#include "parallel/communicator.h"

#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "parallel/shard.h"
#include "parallel/world.h"
#include "tests/support/transports.h"

namespace heddle {

namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

template <class T>
std::vector<double> sum_in_rank_order(int rank_count, std::int64_t count) {
  std::vector<T> total = values<T>(0, count);
  for (int r = 1; r < rank_count; ++r) {
    const std::vector<T> next = values<T>(r, count);
    for (std::size_t i = 0; i < total.size(); ++i)
      total[i] = static_cast<T>(static_cast<Compute<T>>(total[i]) + static_cast<Compute<T>>(next[i]));
  }
  return {total.begin(), total.end()};
}

std::vector<float> concatenate(const std::vector<std::vector<float>>& parts) {
  std::vector<float> whole;
  for (const auto& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

/// Element `begin` up to `begin + size`.
template <class T>
std::vector<T> cut(const std::vector<T>& from, std::int64_t begin, std::int64_t size) {
  return {from.begin() + begin, from.begin() + begin + size};
}

/// One of everything, with shapes known without reading values.
void every_verb(Rank& rank) {
  Communicator& world = rank.world;
  const std::int64_t me = rank.index;
  const Tensor x = Tensor::full(rank.device, {5, 3}, DType::f32, 1);
  const Tensor sum = world.all_reduce(x);
  const Tensor most = world.all_reduce(x, Reduction::max);
  const Tensor all = world.all_gather(x.rows(0, me));
  const Tensor mine = world.reduce_scatter(x);
  std::vector<Tensor> parts;
  for (int p = 0; p < rank.size; ++p) parts.push_back(Tensor::full(rank.device, {me, p}, DType::f32, 1));
  const std::vector<Tensor> turned = world.all_to_all(parts);
  const std::vector<Tensor> gathered = world.gather(x, 0);
  const Tensor scattered = world.scatter(parts, 1 % rank.size);
  const Tensor told = world.broadcast(x, 0);
  if (rank.size > 1) {
    Work<void> sending = world.send(x, (rank.index + 1) % rank.size);
    const Tensor came = world.recv((rank.index + rank.size - 1) % rank.size);
    sending.wait();
  }
  world.barrier().wait();
}

}  // namespace

TEST_CASE_TEMPLATE("all_reduce adds in rank order, bit for bit, also where the ranks do not divide the elements", T,
                   double, float, BFloat16) {
  for (const int count : {1, 2, 3, 4})
    for (const std::int64_t size : {0, 1, 2, 3, 7, 1025})
      on_ranks(count, [&](Rank& rank) {
        const Tensor x = Tensor::from_host(rank.device, {size}, values<T>(rank.index, size));
        const Tensor total = rank.world.all_reduce(x);
        CHECK(total.to_doubles() == sum_in_rank_order<T>(count, size));
        CHECK(total.storage() != x.storage());
      });
}

TEST_CASE("all_reduce keeps any shape, and takes maxima") {
  on_ranks(3, [](Rank& rank) {
    const Tensor scalar = rank.world.all_reduce(Tensor::full(rank.device, {}, DType::f64, rank.index));
    CHECK(to_string(scalar) == "f64[]");
    CHECK(scalar.item() == 3);
    const std::vector<float> mine{static_cast<float>(-rank.index - 1), static_cast<float>(rank.index), -5, 7};
    const Tensor most = rank.world.all_reduce(Tensor::from_host(rank.device, {2, 2}, mine), Reduction::max);
    CHECK(to_string(most) == "f32[2,2]");
    CHECK(most.to_host<float>() == std::vector<float>{-1, 2, -5, 7});
  });
}

TEST_CASE("all_gather concatenates different numbers of rows, none included") {
  for (const int count : {1, 2, 3, 4})
    on_ranks(count, [&](Rank& rank) {
      // Rank 1 has no rows.
      const auto rows_at = [](int r) { return std::int64_t{r == 1 ? 0 : r + 1}; };
      const Tensor all = rank.world.all_gather(rows_of(rank, rows_at(rank.index), 3));
      std::vector<std::vector<float>> expected;
      for (int r = 0; r < count; ++r) expected.push_back(values<float>(r, rows_at(r) * 3));
      CHECK(all.to_host<float>() == concatenate(expected));
      CHECK(all.shape().back() == 3);

      const Tensor labels = rank.world.all_gather(numbers(rank, {rank.index, 1LL << 40}));
      CHECK(labels.dtype() == DType::i64);
      CHECK(labels.to_host<std::int64_t>()[static_cast<std::size_t>(2 * rank.index)] == rank.index);
      const Tensor nothing = rank.world.all_gather(rows_of(rank, 0, 4));
      CHECK(to_string(nothing) == "f32[0,4]");
    });
}

TEST_CASE("reduce_scatter gives each rank its shard of the sum in rank order, or the rows it was given") {
  for (const int count : {1, 2, 3, 4})
    for (const std::int64_t rows : {0, 2, 7})
      on_ranks(count, [&](Rank& rank) {
        const Tensor x = rows_of(rank, rows, 5);
        const std::vector<double> whole = sum_in_rank_order<float>(count, rows * 5);
        const ShardRange mine = shard(rows, count, rank.index);
        const Tensor even = rank.world.reduce_scatter(x);
        CHECK(even.shape() == Shape{mine.size, 5});
        CHECK(even.to_doubles() == cut(whole, mine.begin * 5, mine.size * 5));

        // All rows to the last rank.
        std::vector<std::int64_t> given(static_cast<std::size_t>(count), 0);
        given.back() = rows;
        const Tensor last = rank.world.reduce_scatter(x, given);
        CHECK(last.to_doubles() == (rank.index == count - 1 ? whole : std::vector<double>{}));
      });
}

TEST_CASE("all_to_all hands over parts of any shape and type; receivers learn both") {
  for (const int count : {1, 2, 3, 4})
    on_ranks(count, [&](Rank& rank) {
      std::vector<Tensor> parts;
      for (int p = 0; p < count; ++p) {
        if (p == 0)
          parts.push_back(numbers(rank, {rank.index}));
        else
          parts.push_back(rows_of(rank, rank.index, p));
      }
      const std::vector<Tensor> came = rank.world.all_to_all(parts);
      REQUIRE(came.size() == static_cast<std::size_t>(count));
      for (int p = 0; p < count; ++p) {
        const Tensor& part = came[static_cast<std::size_t>(p)];
        if (rank.index == 0) {
          CHECK(part.to_host<std::int64_t>() == std::vector<std::int64_t>{p});
        } else {
          CHECK(part.shape() == Shape{p, rank.index});
          CHECK(part.to_host<float>() == values<float>(p, p * rank.index));
        }
      }
    });
}

TEST_CASE("broadcast, gather and scatter, from and to every root") {
  for (const int count : {1, 2, 3, 4})
    on_ranks(count, [&](Rank& rank) {
      for (int root = 0; root < count; ++root) {
        const bool is_root = rank.index == root;
        const Tensor told = rank.world.broadcast(is_root ? rows_of(rank, 2, 3) : Tensor(), root);
        CHECK(told.shape() == Shape{2, 3});
        CHECK(told.to_host<float>() == values<float>(root, 6));
        CHECK(&told.device() == &rank.device);

        const std::vector<Tensor> gathered = rank.world.gather(rows_of(rank, rank.index, 2), root);
        REQUIRE(gathered.size() == static_cast<std::size_t>(is_root ? count : 0));
        for (std::size_t p = 0; p < gathered.size(); ++p)
          CHECK(gathered[p].to_host<float>() == values<float>(static_cast<int>(p), 2 * static_cast<int>(p)));

        std::vector<Tensor> parts;
        for (int p = 0; is_root && p < count; ++p) parts.push_back(rows_of(rank, p, 2));
        const Tensor scattered = rank.world.scatter(parts, root);
        CHECK(scattered.shape() == Shape{rank.index, 2});
        CHECK(scattered.to_host<float>() == values<float>(root, 2 * rank.index));
      }
    });
}

TEST_CASE("messages of a pair arrive in order, however many are on their way") {
  on_ranks(3, [](Rank& rank) {
    const int to = (rank.index + 1) % 3;
    const int from = (rank.index + 2) % 3;
    std::vector<Work<void>> sending;
    for (std::int64_t i = 0; i < 1000; ++i) sending.push_back(rank.world.send(numbers(rank, {i, rank.index}), to));
    for (std::int64_t i = 0; i < 1000; ++i) {
      const Tensor came = rank.world.recv(from);
      CHECK(came.to_host<std::int64_t>() == std::vector<std::int64_t>{i, from});
    }
    for (Work<void>& work : sending) work.wait();
  });
}

TEST_CASE("receives match their sends by the order of the calls, not of the waits") {
  on_ranks(2, [](Rank& rank) {
    if (rank.index == 0) {
      rank.world.send(rows_of(rank, 1, 1), 1).wait();
      rank.world.send(rows_of(rank, 2, 2), 1).wait();
    } else {
      Work<Tensor> first = rank.world.recv(0);
      Work<Tensor> second = rank.world.recv(0);
      CHECK(first.wait().shape() == Shape{1, 1});
      CHECK(second.wait().shape() == Shape{2, 2});
    }
  });
}

TEST_CASE("collectives started together on several communicators may be waited for in any order") {
  on_ranks(4, [](Rank& rank) {
    Communicator pair = rank.world.split(rank.index % 2);
    std::vector<Work<Tensor>> started;
    for (int i = 0; i < 20; ++i) {
      const Tensor x = Tensor::full(rank.device, {3}, DType::f32, i);
      started.push_back(i % 2 == 0 ? rank.world.all_reduce(x) : pair.all_reduce(x));
    }
    for (int i = 0; i < 20; ++i) {
      const int k = rank.index < 2 ? i : 19 - i;
      const float expected = static_cast<float>(k * (k % 2 == 0 ? 4 : 2));
      CHECK(started[static_cast<std::size_t>(k)].wait().to_host<float>() == std::vector<float>(3, expected));
    }
  });
}

TEST_CASE("split groups ranks by color in their order; its ranks are counted anew") {
  on_ranks(4, [](Rank& rank) {
    Communicator half = rank.world.split(rank.index / 2);
    CHECK(half.size() == 2);
    CHECK(half.rank() == rank.index % 2);
    const Tensor members = half.all_gather(numbers(rank, {rank.index}));
    CHECK(members.to_host<std::int64_t>()[0] == rank.index / 2 * 2);
    Communicator alone = half.split(rank.index);
    CHECK(alone.size() == 1);
    CHECK(alone.all_reduce(rows_of(rank, 2, 2)).wait().to_host<float>() == values<float>(rank.index, 4));
    if (half.rank() == 0) half.send(numbers(rank, {7}), 1).wait();
    if (half.rank() == 1) CHECK(half.recv(0).wait().to_host<std::int64_t>()[0] == 7);
  });
}

TEST_CASE("after a collective the meter holds its result and nothing else, in the category of the start") {
  on_ranks(3, [](Rank& rank) {
    const Tensor x = rows_of(rank, 4, 8);
    rank.world.barrier().wait();
    const std::int64_t before = rank.device.meter().live().total();
    const auto held = [&] { return rank.device.meter().live().total() - before; };
    const auto started = [&](Category category, auto start) {
      const MemoryScope scope(rank.device, category);
      return start();
    };
    {
      Work<Tensor> work = started(Category::gradients, [&] { return rank.world.all_reduce(x, Reduction::max); });
      const Tensor y = work.wait();
      CHECK(held() == x.bytes());
      CHECK(rank.device.meter().live()[Category::gradients] == x.bytes());
      CHECK(rank.device.meter().live()[Category::communication] == 0);
    }
    CHECK(held() == 0);
    {
      Tensor in_place = x.clone();
      rank.device.meter().reset_peak();
      rank.world.all_reduce_in_place(in_place).wait();
      CHECK(held() == x.bytes());
      CHECK(rank.device.meter().peak().total() == before + x.bytes());
    }
    {
      const Tensor y = rank.world.reduce(x, 1);
      CHECK(y.defined() == (rank.index == 1));
      CHECK(held() == (rank.index == 1 ? x.bytes() : 0));
    }
    {
      const Tensor y = rank.world.all_gather(x);
      CHECK(held() == 3 * x.bytes());
    }
    {
      const Tensor y = rank.world.reduce_scatter(x);
      CHECK(held() == y.bytes());
    }
    {
      const std::vector<Tensor> parts = rank.world.all_to_all(std::vector(3, x));
      CHECK(held() == 3 * x.bytes());
    }
    {
      const Tensor y = rank.world.broadcast(x, 1);
      CHECK(held() == (rank.index == 1 ? 0 : x.bytes()));
    }
    CHECK(held() == 0);
  });
}

TEST_CASE("a tensor on its way is charged to the sender until its receive") {
  on_ranks(2, [](Rank& rank) {
    MemoryMeter& meter = rank.device.meter();
    if (rank.index == 0) {
      Work<void> sending = rank.world.send(Tensor::zeros(rank.device, {10}, DType::f32), 1);
      rank.world.barrier().wait();
      CHECK(meter.live().total() == 40);
      sending.wait();
      CHECK(meter.live().total() == 0);
    } else {
      rank.world.barrier().wait();
      CHECK(meter.live().total() == 0);
      const Tensor came = rank.world.recv(0);
      CHECK(meter.live().total() == 40);
    }
  });
}

TEST_CASE("the bytes counted are the textbook's") {
  for (const int k : {1, 2, 4})
    on_ranks(k, [&](Rank& rank) {
      const std::int64_t n = 64 * 4;
      const Tensor whole = Tensor::zeros(rank.device, {8, 8}, DType::f32);
      const Tensor part = whole.rows(0, 8 / k);
      const auto check = [&](const auto& verb, std::int64_t sent, std::int64_t received) {
        const std::int64_t sent_before = rank.bytes.sent_bytes();
        const std::int64_t received_before = rank.bytes.received_bytes();
        verb();
        CHECK(rank.bytes.sent_bytes() - sent_before == sent);
        CHECK(rank.bytes.received_bytes() - received_before == received);
      };
      const bool is_root = rank.index == 0;
      Communicator& world = rank.world;
      check([&] { return world.all_reduce(whole).wait(); }, 2 * (k - 1) * n / k, 2 * (k - 1) * n / k);
      check([&] { return world.all_gather(part).wait(); }, (k - 1) * n / k, (k - 1) * n / k);
      check([&] { return world.reduce_scatter(whole).wait(); }, (k - 1) * n / k, (k - 1) * n / k);
      const std::vector<Tensor> parts(static_cast<std::size_t>(k), part);
      check([&] { return world.all_to_all(parts).wait(); }, (k - 1) * n / k, (k - 1) * n / k);
      check([&] { return world.broadcast(whole, 0).wait(); }, is_root ? (k - 1) * n : 0, is_root ? 0 : n);
      check([&] { return world.gather(part, 0).wait(); }, is_root ? 0 : n / k, is_root ? (k - 1) * n / k : 0);
      check([&] { return world.scatter(parts, 0).wait(); }, is_root ? (k - 1) * n / k : 0, is_root ? 0 : n / k);
      check([&] { return world.barrier().wait(); }, 0, 0);
      if (k == 1) return;
      if (rank.index == 0) check([&] { return world.send(whole, 1).wait(); }, n, 0);
      if (rank.index == 1) check([&] { return world.recv(0).wait(); }, 0, n);
    });
}

TEST_CASE("plan moves nothing and holds the same bytes as cpu, and counts the same traffic") {
  for (const int count : {1, 2, 3, 4}) {
    const auto measure = [&](const std::string& backend) {
      std::vector<std::vector<std::int64_t>> table(static_cast<std::size_t>(count));
      run_ranks(ranks(count, backend), [&](Rank& rank) {
        every_verb(rank);
        const MemoryUse peak = rank.device.meter().peak();
        std::vector<std::int64_t>& row = table[static_cast<std::size_t>(rank.index)];
        row.assign(peak.bytes.begin(), peak.bytes.end());
        row.push_back(rank.device.meter().live().total());
        row.push_back(rank.bytes.sent_bytes());
        row.push_back(rank.bytes.received_bytes());
      });
      return table;
    };
    CHECK(measure("plan") == measure("cpu"));
  }
}

TEST_CASE("hooks see every call of a rank, on all its communicators") {
  struct Recorder : Hook {
    void before(const Call& call) override { seen.push_back(to_string(call)); }
    void after(const Call& call, const Outcome& outcome) override {
      seen.push_back(fmt::format("{} done, {} sent, {} received", name_of(call.operation), outcome.sent_bytes,
                                 outcome.received_bytes));
    }
    std::vector<std::string> seen;
  };
  on_ranks(2, [](Rank& rank) {
    const auto recorder = std::make_shared<Recorder>();
    rank.world.add_hook(recorder);
    rank.data_parallel.all_reduce(Tensor::zeros(rank.device, {2}, DType::f64)).wait();
    CHECK(recorder->seen == std::vector<std::string>{fmt::format("rank {}, call 1: all_reduce(sum) f64[2]", rank.index),
                                                     "all_reduce done, 16 sent, 16 received"});
  });
}

}  // namespace heddle
