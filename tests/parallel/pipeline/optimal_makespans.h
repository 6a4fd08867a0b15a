// Small steps whose least makespan a solver has proved: parallel/pipeline/files/optimal_makespans.csv.
#pragma once

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "framework/files/atomic_file.h"
#include "parallel/pipeline/simulation.h"
#include "tests/support/files/source_folder.h"

namespace heddle::test {

struct OptimalMakespan {
  std::string line;
  int ranks = 0;
  int micro_batches = 0;
  double memory = 0;
  StageCosts costs;  // of a micro-batch on a rank
  double latency = 0;
  std::vector<int> rank_of;
  std::optional<double> optimum;  // none: nothing fits
};

inline std::vector<OptimalMakespan> optimal_makespans() {
  std::istringstream file(read_file(source_folder() / "tests/parallel/pipeline/files/optimal_makespans.csv", 1 << 20));
  std::vector<OptimalMakespan> rows;
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream cells(line);
    std::vector<std::string> values;
    for (std::string value; std::getline(cells, value, ',');) values.push_back(value);
    OptimalMakespan row{.line = line,
                        .ranks = std::stoi(values.at(0)),
                        .micro_batches = std::stoi(values.at(1)),
                        .memory = std::stod(values.at(2)),
                        .costs = {},
                        .latency = std::stod(values.at(6)),
                        .rank_of = {},
                        .optimum = {}};
    row.costs.forward = std::stod(values.at(3));
    row.costs.backward_input = std::stod(values.at(4));
    row.costs.backward_weight = std::stod(values.at(5));
    const int chunks = values.at(7).at(1) - '0';
    row.rank_of = values.at(7).at(0) == 'L' ? looped_stages(row.ranks, chunks) : wave_stages(row.ranks, chunks);
    if (values.size() > 8) row.optimum = std::stod(values.at(8));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace heddle::test
