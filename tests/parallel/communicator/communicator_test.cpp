#include "parallel/communicator/communicator.h"

#include <cmath>

#include <doctest/doctest.h>

#include "parallel/communicator/shard.h"
#include "parallel/world.h"
#include "tests/support/transports.h"

namespace heddle::test {

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

TEST_CASE_TEMPLATE("all_reduce in place gives the bits of all_reduce, of any part of a tensor", T, double, float,
                   BFloat16) {
  for (const int count : {1, 2, 3, 4})
    on_ranks(count, [&](Rank& rank) {
      for (const std::int64_t size : {0, 1, 3, 1025, 70001}) {
        Tensor whole = Tensor::from_host(rank.device, {size + 2}, values<T>(rank.index, size + 2));
        Tensor part = whole.rows(1, size + 1);
        const Tensor apart = rank.world.all_reduce(part);
        const std::uint64_t version = whole.storage()->version();
        rank.world.all_reduce_in_place(part).wait();
        CHECK(part.to_doubles() == apart.to_doubles());
        CHECK(whole.storage()->version() > version);
        // Its neighbours are left alone.
        const std::vector<T> before = values<T>(rank.index, size + 2);
        const std::vector<T> after = whole.to_host<T>();
        CHECK(static_cast<double>(after.front()) == static_cast<double>(before.front()));
        CHECK(static_cast<double>(after.back()) == static_cast<double>(before.back()));
      }
    });
}

TEST_CASE("all_reduce in place takes maxima, and meets ranks that are not in place") {
  on_ranks(3, [](Rank& rank) {
    Tensor x = rows_of(rank, 3, 5);
    const Tensor most = rank.world.all_reduce(x, Reduction::max);
    Tensor in_place = x.clone();
    if (rank.index == 1) {
      rank.world.all_reduce_in_place(in_place, Reduction::max).wait();
      CHECK(in_place.to_host<float>() == most.to_host<float>());
    } else {
      const Tensor apart = rank.world.all_reduce(x, Reduction::max);
      CHECK(apart.to_host<float>() == most.to_host<float>());
      CHECK(x.to_host<float>() == values<float>(rank.index, 15));
    }
  });
}

TEST_CASE("a maximum over ranks keeps a NaN, whichever rank has it") {
  for (const int count : {2, 3})
    on_ranks(count, [&](Rank& rank) {
      for (int owner = 0; owner < count; ++owner) {
        std::vector<float> mine{1, static_cast<float>(rank.index)};
        if (rank.index == owner) mine[0] = std::nanf("");
        const Tensor most = rank.world.all_reduce(Tensor::from_host(rank.device, {2}, mine), Reduction::max);
        CHECK(std::isnan(most.to_host<float>()[0]));
        CHECK(most.to_host<float>()[1] == static_cast<float>(count - 1));
      }
    });
}

TEST_CASE_TEMPLATE("reduce gives every root the bits of all_reduce, and the others nothing", T, double, float,
                   BFloat16) {
  for (const int count : {1, 2, 3, 4})
    on_ranks(count, [&](Rank& rank) {
      for (int root = 0; root < count; ++root)
        for (const std::int64_t size : {0, 1, 7, 1025}) {
          const Tensor x = Tensor::from_host(rank.device, {size}, values<T>(rank.index, size));
          const Tensor sum = rank.world.reduce(x, root);
          const Tensor most = rank.world.reduce(x, root, Reduction::max);
          const Tensor every_sum = rank.world.all_reduce(x);
          const Tensor every_most = rank.world.all_reduce(x, Reduction::max);
          REQUIRE(sum.defined() == (rank.index == root));
          REQUIRE(most.defined() == (rank.index == root));
          if (rank.index != root) continue;
          CHECK(to_string(sum) == to_string(x));
          CHECK(sum.to_doubles() == every_sum.to_doubles());
          CHECK(most.to_doubles() == every_most.to_doubles());
        }
    });
}

TEST_CASE("all ranks may exchange at once, in a ring and in pairs, with different shapes and types") {
  for (const int count : {2, 3, 4})
    on_ranks(count, [&](Rank& rank) {
      const int next = (rank.index + 1) % count;
      const int previous = (rank.index + count - 1) % count;
      const Tensor came = rank.world.exchange(rows_of(rank, rank.index, 2), next, previous);
      CHECK(came.shape() == Shape{previous, 2});
      CHECK(came.to_host<float>() == values<float>(previous, 2 * previous));
      if (count % 2 == 1) return;
      // Several on their way, waited for from the last.
      const int partner = rank.index ^ 1;
      std::vector<Work<Tensor>> started;
      for (std::int64_t i = 0; i < 5; ++i)
        started.push_back(rank.world.exchange(numbers(rank, {i, rank.index}), partner));
      for (std::int64_t i = 4; i >= 0; --i)
        CHECK(started[static_cast<std::size_t>(i)].wait().to_host<std::int64_t>() ==
              std::vector<std::int64_t>{i, partner});
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
        const IndexRange mine = shard(rows, count, rank.index);
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
        const Tensor received = rank.world.broadcast(is_root ? rows_of(rank, 2, 3) : Tensor(), root);
        CHECK(received.shape() == Shape{2, 3});
        CHECK(received.to_host<float>() == values<float>(root, 6));
        CHECK(&received.device() == &rank.device);

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

TEST_CASE("a communicator may go before its calls are waited for") {
  on_ranks(4, [](Rank& rank) {
    const auto start = [&] {
      Communicator half = rank.world.split(rank.index / 2);
      return half.all_gather(rows_of(rank, 3000, 2));
    };
    Work<Tensor> pending = start();
    CHECK(rank.world.all_reduce(rows_of(rank, 2, 2)).wait().numel() == 4);
    CHECK(pending.wait().shape() == Shape{6000, 2});
  });
}

TEST_CASE("max_over_ranks gives every rank the largest number, and sends no bytes") {
  on_ranks(4, [](Rank& rank) {
    CHECK(rank.world.max_over_ranks(rank.index == 2 ? 15 : 0) == 15);
    CHECK(rank.world.max_over_ranks(-rank.index) == 0);
    CHECK(rank.bytes.sent_bytes() == 0);
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

}  // namespace heddle::test
