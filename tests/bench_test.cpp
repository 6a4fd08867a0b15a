#include "experiments/bench/bench.h"

#include <array>

#include <doctest/doctest.h>

#include "experiments/bench/machine.h"
#include "framework/error.h"

namespace heddle {
namespace {

TEST_CASE("bench: rows as JSON keep all keys, null where nothing was measured") {
  const std::array<BenchRow, 1> rows{{{.name = "matmul", .value = 50, .unit = "GFLOP/s", .limit = 100, .share = 0.5}}};
  CHECK(bench_json(rows) == R"({
  "rows": [
    {
      "name": "matmul",
      "value": 50.0,
      "unit": "GFLOP/s",
      "limit": 100.0,
      "share": 0.5,
      "peer": null
    }
  ]
}
)");
}

TEST_CASE("bench: an unknown name lists the known ones") {
  CHECK_THROWS_WITH_AS(run_bench("op", {}),
                       "unknown benchmark 'op': expected ops or collectives or steps or pipeline or head", InputError);
}

TEST_CASE("bench: the shortest of several calls counts") {
  int calls = 0;
  CHECK(shortest_seconds([&] { ++calls; }, 0) < 1);
  CHECK(calls == 4);
}

}  // namespace
}  // namespace heddle
