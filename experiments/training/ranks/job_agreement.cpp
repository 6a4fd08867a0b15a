#include "experiments/training/ranks/job_agreement.h"

#include "framework/error.h"
#include "framework/files/crc32c.h"
#include "parallel/transports/transports.h"
#include "parallel/world.h"

namespace heddle {

void together(Job* job, const std::function<void()>& body) {
  if (job != nullptr)
    job->together(body);
  else
    body();
}

std::vector<double> broadcast_numbers(Job* job, const std::vector<double>& numbers) {
  if (job == nullptr) return numbers;
  std::vector<double> received;
  WorldOptions options;
  options.mesh = Mesh(job->size());
  options.transport = transport_of_jobs(options.backend).name;
  options.job = job;
  options.timeout = job->section_timeout();
  run_ranks(options, [&](Rank& rank) {
    Tensor values;
    if (rank.index == 0) {
      values = Tensor::empty(rank.device, {static_cast<std::int64_t>(numbers.size())}, DType::f64);
      values.load_bytes(std::as_bytes(std::span(numbers)));
    }
    received = rank.world.broadcast(values, 0).wait().to_doubles();
  });
  return received;
}

void check_same_data(const Dataset& dataset, Job* job) {
  if (job == nullptr) return;
  for (std::size_t set = 0; dataset.sets() > 1 && set < dataset.sets(); ++set) check_same_data(dataset.set(set), job);
  if (dataset.sets() > 1) return;
  std::vector<double> mine{static_cast<double>(dataset.classes())};
  for (const Split split : {Split::train, Split::test}) {
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < dataset.size(split); ++i) labels.push_back(dataset.label(split, i));
    const std::string_view bytes(reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(labels[0]));
    mine.push_back(static_cast<double>(labels.size()));
    mine.push_back(crc32c(bytes));
  }
  std::vector<double> weights;
  for (std::int64_t i = 0; dataset.has_weights() && i < dataset.size(Split::train); ++i)
    weights.push_back(dataset.weight(i));
  mine.push_back(crc32c({reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(double)}));
  const std::vector<double> first = broadcast_numbers(job, mine);
  job->together([&] {
    const auto in_words = [](const std::vector<double>& data) {
      return fmt::format("{} people, {} training images with labels {:08x}{}, {} test images with labels {:08x}",
                         data[0], data[1], static_cast<std::uint32_t>(data[2]),
                         data[5] == 0 ? "" : fmt::format(" and weights {:08x}", static_cast<std::uint32_t>(data[5])),
                         data[3], static_cast<std::uint32_t>(data[4]));
    };
    if (mine != first) fail<InputError>("data: {}; rank 0 has {}", in_words(mine), in_words(first));
  });
}

}  // namespace heddle
