#include "experiments/program/job.h"

#include <algorithm>

#include "experiments/config/first_change.h"
#include "experiments/config/wording.h"
#include "experiments/training/run.h"
#include "framework/error.h"
#include "framework/files/crc32c.h"
#include "parallel/transports/transports.h"
#include "parallel/world.h"

namespace heddle {

void together(Processes* job, const std::function<void()>& body) {
  if (job != nullptr)
    job->together(body);
  else
    body();
}

std::vector<double> shared(Processes* job, const std::vector<double>& numbers) {
  if (job == nullptr) return numbers;
  std::vector<double> got;
  WorldOptions options;
  options.mesh = Mesh(job->size());
  options.transport = transport_of_jobs(options.backend).name;
  options.processes = job;
  run_ranks(options, [&](Rank& rank) {
    Tensor values;
    if (rank.index == 0) {
      values = Tensor::empty(rank.device, {static_cast<std::int64_t>(numbers.size())}, DType::f64);
      values.load_bytes(std::as_bytes(std::span(numbers)));
    }
    got = rank.world.broadcast(values, 0).wait().to_doubles();
  });
  return got;
}

void check_same_call(const std::string& text, const std::string& options, Processes* job) {
  if (job == nullptr) return;
  const std::vector<std::string> all_options = job->gather(options);
  const std::vector<std::string> all_texts = job->gather(text);
  job->together([&] {
    for (std::size_t rank = 1; rank < all_texts.size(); ++rank) {
      if (all_options[rank] != options)
        fail<InputError>("rank {} was called with {}, rank 0 with {}", rank, shortened(all_options[rank]), options);
      if (all_texts[rank] == text) continue;
      const std::optional<Change> change = first_change(text, all_texts[rank]);
      fail<InputError>("rank {} was given another experiment than rank 0{}", rank,
                       change ? fmt::format(": {} is {}, there {}", change->key, change->before, change->now) : "");
    }
  });
}

void check_same_data(const Dataset& dataset, Processes* job) {
  if (job == nullptr) return;
  std::vector<double> mine{static_cast<double>(dataset.classes())};
  for (const Split split : {Split::train, Split::test}) {
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < dataset.size(split); ++i) labels.push_back(dataset.label(split, i));
    const std::string_view bytes(reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(labels[0]));
    mine.push_back(static_cast<double>(labels.size()));
    mine.push_back(crc32c(bytes));
  }
  const std::vector<double> first = shared(job, mine);
  job->together([&] {
    const auto told = [](const std::vector<double>& data) {
      return fmt::format("{} identities, {} training images with labels {:08x}, {} test images with labels {:08x}",
                         data[0], data[1], static_cast<std::uint32_t>(data[2]), data[3],
                         static_cast<std::uint32_t>(data[4]));
    };
    if (mine != first) fail<InputError>("data: {}; rank 0 has {}", told(mine), told(first));
  });
}

void fit_to_job(Study<Experiment>& study, const Processes* job) {
  int ranks = 0;
  for (const auto& member : study.variants) ranks = std::max(ranks, ranks_of(member.root));
  for (auto& member : study.variants) {
    Experiment& experiment = member.root;
    if (job == nullptr && transport_type(experiment.transport).needs_job)
      fail<InputError>("{}: {} needs one process per rank: mpirun -n {} ./heddle run FILE",
                       member.document.where("/transport"), experiment.transport, ranks);
    if (job != nullptr) experiment.transport = transport_of_jobs(name_of(experiment.device)).name;
  }
  if (job != nullptr && job->size() != ranks)
    fail<InputError>("{}: expected as many processes as the largest mesh has ranks, {}, got {}: {}", study.name, ranks,
                     job->size(), start_of_job(ranks));
}

}  // namespace heddle
