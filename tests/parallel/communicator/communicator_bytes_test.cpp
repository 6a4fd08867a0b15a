// The memory and traffic of communication: the meter, the byte counter, plan compared with cpu, and hooks.
#include <doctest/doctest.h>

#include "parallel/communicator/communicator.h"
#include "parallel/communicator/shard.h"
#include "parallel/world.h"
#include "tests/support/transports.h"

namespace heddle::test {

namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the ranks and values of this suite

/// Every call once, with shapes that are known without reading values.
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
  const Tensor reduced = world.reduce(x, 1 % rank.size);
  Tensor in_place = x.clone();
  world.all_reduce_in_place(in_place).wait();
  const std::vector<Tensor> gathered = world.gather(x, 0);
  const Tensor scattered = world.scatter(parts, 1 % rank.size);
  const Tensor received = world.broadcast(x, 0);
  if (rank.size > 1) {
    Work<void> sending = world.send(x, (rank.index + 1) % rank.size);
    const Tensor came = world.recv((rank.index + rank.size - 1) % rank.size);
    sending.wait();
    const Tensor swapped =
        world.exchange(x.rows(0, me), (rank.index + 1) % rank.size, (rank.index + rank.size - 1) % rank.size);
  }
  world.barrier().wait();
}

}  // namespace

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
      // Between processes a reduction holds pieces of the others' elements beside.
      const MemoryUse peak = rank.device.meter().peak();
      CHECK(peak.total() - peak[Category::communication] == before + x.bytes());
      if (transport() == "threads") CHECK(peak[Category::communication] == 0);
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

TEST_CASE("the bytes counted are the textbook's, also where the ranks do not divide the elements") {
  for (const int k : {1, 2, 3, 4})
    on_ranks(k, [&](Rank& rank) {
      constexpr std::int64_t rows = 7;
      constexpr std::int64_t row = 5 * 4;
      const std::int64_t n = rows * row;
      const Tensor whole = Tensor::zeros(rank.device, {rows, 5}, DType::f32);
      Communicator& world = rank.world;
      const int me = rank.index;
      const int root = k - 1;
      const bool is_root = me == root;
      const auto part_of = [&](int p) { return whole.rows(shard(rows, k, p).begin, shard(rows, k, p).end()); };
      std::vector<Tensor> parts;
      for (int p = 0; p < k; ++p) parts.push_back(part_of(p));
      const Tensor part = part_of(me);
      // What this rank holds: rows, or where elements are cut, elements.
      const std::int64_t m = part.bytes();
      const std::int64_t e = shard(rows * 5, k, me).size * 4;
      const auto counts = [&](const auto& verb, std::int64_t sent, std::int64_t received) {
        const std::int64_t sent_before = rank.bytes.sent_bytes();
        const std::int64_t received_before = rank.bytes.received_bytes();
        verb();
        CHECK(rank.bytes.sent_bytes() - sent_before == sent);
        CHECK(rank.bytes.received_bytes() - received_before == received);
      };
      const std::int64_t both_ways = (n - e) + (k - 1) * e;
      counts([&] { return world.all_reduce(whole).wait(); }, both_ways, both_ways);
      Tensor in_place = whole.clone();
      counts([&] { world.all_reduce_in_place(in_place).wait(); }, both_ways, both_ways);
      counts([&] { return world.reduce(whole, root).wait(); }, is_root ? n - e : n, is_root ? both_ways : (k - 1) * e);
      counts([&] { return world.reduce_scatter(whole).wait(); }, n - m, (k - 1) * m);
      counts([&] { return world.all_gather(part).wait(); }, (k - 1) * m, n - m);
      counts([&] { return world.all_to_all(parts).wait(); }, n - m, (k - 1) * m);
      counts([&] { return world.broadcast(whole, root).wait(); }, is_root ? (k - 1) * n : 0, is_root ? 0 : n);
      counts([&] { return world.gather(part, root).wait(); }, is_root ? 0 : m, is_root ? n - m : 0);
      counts([&] { return world.scatter(parts, root).wait(); }, is_root ? n - m : 0, is_root ? 0 : m);
      counts([&] { world.barrier().wait(); }, 0, 0);
      counts([&] { world.split(0); }, 0, 0);
      if (k == 1) return;
      if (me == 0) counts([&] { world.send(whole, 1).wait(); }, n, 0);
      if (me == 1) counts([&] { return world.recv(0).wait(); }, 0, n);
      const int previous = (me + k - 1) % k;
      counts([&] { return world.exchange(part, (me + 1) % k, previous).wait(); }, m, part_of(previous).bytes());
    });
}

TEST_CASE("where the ranks divide the tensor, all_reduce and its halves send what a ring would") {
  for (const int k : {2, 4})
    on_ranks(k, [&](Rank& rank) {
      const std::int64_t n = 64 * 4;
      const Tensor whole = Tensor::zeros(rank.device, {8, 8}, DType::f32);
      rank.world.barrier().wait();
      const std::int64_t before = rank.bytes.sent_bytes();
      rank.world.all_reduce(whole).wait();
      CHECK(rank.bytes.sent_bytes() - before == 2 * (k - 1) * n / k);
      rank.world.reduce_scatter(whole).wait();
      CHECK(rank.bytes.sent_bytes() - before == 3 * (k - 1) * n / k);
      rank.world.all_gather(whole.rows(0, 8 / k)).wait();
      CHECK(rank.bytes.sent_bytes() - before == 4 * (k - 1) * n / k);
    });
}

TEST_CASE("plan moves nothing and holds the same bytes as the tested backend, and counts the same traffic") {
  for (const int count : {1, 2, 3, 4}) {
    if (!can_run(count)) continue;
    const auto measure = [&](const std::string& backend) {
      std::vector<std::vector<std::int64_t>> table(static_cast<std::size_t>(count));
      run(on_transport(count, backend), [&](Rank& rank) {
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
    CHECK(measure("plan") == measure(tested_backend()));
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
    Communicator other = rank.world.split(0);
    const auto recorder = std::make_shared<Recorder>();
    rank.world.add_hook(recorder);
    other.all_reduce(Tensor::zeros(rank.device, {2}, DType::f64)).wait();
    CHECK(recorder->seen == std::vector<std::string>{fmt::format("rank {}, call 1: all_reduce(sum) f64[2]", rank.index),
                                                     "all_reduce done, 16 sent, 16 received"});
  });
}

}  // namespace heddle::test
