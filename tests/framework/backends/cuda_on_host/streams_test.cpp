// Ranks that share a GPU: their streams wait for each other where they must, and their hosts do not.
#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "parallel/communicator/communicator.h"
#include "tests/support/cuda_on_host/cuda_runtime.h"
#include "tests/support/ranks.h"

namespace heddle::test {
namespace {

TEST_CASE("a stream executes its work when a host or a stream waits for it, and not before") {
  cudaStream_t a = nullptr;
  cudaStream_t b = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  std::string done;
  const auto put = [&](cudaStream_t stream, const char* what) { put_on(stream, [&done, what] { done += what; }); };
  put(a, "a1 ");
  REQUIRE(cudaEventRecord(event, a) == cudaSuccess);
  put(a, "a2 ");
  put(b, "b1 ");
  REQUIRE(cudaStreamWaitEvent(b, event, 0) == cudaSuccess);
  put(b, "b2 ");
  CHECK(done.empty());
  // An event that is recorded anew is another point for those that wait from now on only.
  REQUIRE(cudaEventRecord(event, a) == cudaSuccess);
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(done == "b1 a1 b2 ");
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(done == "b1 a1 b2 a2 ");
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamDestroy(a) == cudaSuccess);
  CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

/// A call in which x goes to others or is changed by them; what it gives this rank.
struct Verb {
  std::string name;
  std::function<std::vector<Tensor>(Rank&, Tensor& x)> call;
};

std::vector<Tensor> parts_of(const Rank& rank, const Tensor& x) {
  std::vector<Tensor> parts;
  for (int p = 0; p < rank.size; ++p) parts.push_back(x.rows(p, p + 2));
  return parts;
}
int next(const Rank& rank) {
  return (rank.index + 1) % rank.size;
}
int previous(const Rank& rank) {
  return (rank.index + rank.size - 1) % rank.size;
}

const std::vector<Verb>& verbs() {
  using Tensors = std::vector<Tensor>;
  static const std::vector<Verb> all{
      {"broadcast", [](Rank& r, Tensor& x) { return Tensors{r.world.broadcast(x, 1)}; }},
      {"reduce",
       [](Rank& r, Tensor& x) {
         const Tensor sum = r.world.reduce(x, 1);
         return r.index == 1 ? Tensors{sum} : Tensors{};
       }},
      {"all_reduce", [](Rank& r, Tensor& x) { return Tensors{r.world.all_reduce(x, Reduction::max)}; }},
      {"all_reduce_in_place",
       [](Rank& r, Tensor& x) {
         r.world.all_reduce_in_place(x).wait();
         return Tensors{x};
       }},
      {"all_gather", [](Rank& r, Tensor& x) { return Tensors{r.world.all_gather(x)}; }},
      {"reduce_scatter", [](Rank& r, Tensor& x) { return Tensors{r.world.reduce_scatter(x)}; }},
      {"all_to_all", [](Rank& r, Tensor& x) { return r.world.all_to_all(parts_of(r, x)).wait(); }},
      {"gather", [](Rank& r, Tensor& x) { return r.world.gather(x, 2).wait(); }},
      {"scatter", [](Rank& r, Tensor& x) { return Tensors{r.world.scatter(parts_of(r, x), 0)}; }},
      {"exchange", [](Rank& r, Tensor& x) { return Tensors{r.world.exchange(x, next(r), previous(r))}; }},
      {"send",
       [](Rank& r, Tensor& x) {
         Work<void> sending = r.world.send(x, next(r));
         const Tensor came = r.world.recv(previous(r));
         sending.wait();
         return Tensors{came};
       }},
      {"a send that is dropped",
       [](Rank& r, Tensor& x) {
         { const Work<void> dropped = r.world.send(x.clone(), next(r)); }
         return Tensors{r.world.recv(previous(r))};
       }},
      {"calls under way together",
       [](Rank& r, Tensor& x) {
         Work<Tensor> sum = r.world.all_reduce(x);
         Work<Tensor> most = r.world.all_reduce(x, Reduction::max);
         return Tensors{sum.wait(), most.wait()};
       }},
  };
  return all;
}

/// What a rank gets of a verb whose x is computed just before, and changed and given back just after, when the ranks'
/// streams do all of it in this order, one after the other.
std::vector<double> outcome(Rank& rank, const Verb& verb, const std::vector<int>& order) {
  constexpr std::int64_t rows = 5;
  const Backend& backend = rank.device.backend();
  std::vector<Tensor> results;
  {
    Tensor x = rows_of(rank, rows, 2);
    backend.elementwise().scale_add(0.5, x, 0, x);
    const std::vector<Tensor> given = verb.call(rank, x);
    std::transform(given.begin(), given.end(), std::back_inserter(results), [](const Tensor& y) { return y.clone(); });
    x.fill(-1);
  }
  Tensor next_in_memory = Tensor::full(rank.device, {rows, 2}, DType::f32, -2);
  for (const int turn : order) {
    rank.world.barrier().wait();
    if (turn == rank.index) rank.device.backend().settle();
  }
  rank.world.barrier().wait();
  std::vector<double> values;
  for (const Tensor& result : results)
    for (const double value : result.to_doubles()) values.push_back(value);
  return values;
}

TEST_CASE("what ranks offer is read when it is computed, and changes when it is read, whichever stream is first") {
  std::vector<int> order{0, 1, 2};
  const auto count = static_cast<int>(order.size());
  do {
    const auto outcomes = [&](const std::string& backend) {
      std::vector<std::vector<std::vector<double>>> all(static_cast<std::size_t>(count));
      run_ranks(ranks(count, backend), [&](Rank& rank) {
        for (const Verb& verb : verbs())
          all[static_cast<std::size_t>(rank.index)].push_back(outcome(rank, verb, order));
      });
      return all;
    };
    const auto expected = outcomes("cpu");
    const auto got = outcomes("cuda");
    for (std::size_t rank = 0; rank < got.size(); ++rank)
      for (std::size_t v = 0; v < verbs().size(); ++v) {
        CAPTURE(rank);
        CAPTURE(order[0]);
        CAPTURE(order[1]);
        INFO(verbs()[v].name);
        CHECK(got[rank][v] == expected[rank][v]);
      }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("communication does not make a host wait for a stream") {
  for (const Verb& verb : verbs()) {
    INFO(verb.name);
    std::array<std::int64_t, 2> waits{};
    run_ranks(ranks(3, "cuda"), [&](Rank& rank) {
      Tensor x = rows_of(rank, 5, 2);
      rank.world.barrier().wait();
      const CallsOnHost before = calls_on_host();
      rank.world.barrier().wait();
      (void)verb.call(rank, x);
      rank.world.barrier().wait();
      if (rank.index == 0)
        waits = {calls_on_host().waits - before.waits, calls_on_host().device_wide - before.device_wide};
      rank.world.barrier().wait();
    });
    CHECK(waits == std::array<std::int64_t, 2>{0, 0});
  }
}

}  // namespace
}  // namespace heddle::test
