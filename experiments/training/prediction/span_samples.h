// The seconds that one rank has recorded in a step, by action of the pipeline and by name of the span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicator/tracer.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/simulation.h"

namespace heddle {

/// Which micro-batches of a stage a mean is over: the first one that came, all others, or all.
enum class Counted { first, later, all };

class SpanSamples {
 public:
  explicit SpanSamples(const std::vector<Span>& spans);
  /// The times of ranks that wait for each other within their spans, as if they were one rank: a span begins when the
  /// last rank begins it and ends when the last rank ends it. Names that the first rank lacks are left out.
  /// computing_of and offloaded_bytes remain those of the first rank.
  static SpanSamples of_group(std::span<const SpanSamples* const> ranks);

  /// The sum over the spans of this name: each head has its own. 0 if there are none.
  double sum_of(const std::string& name) const;
  /// The part of that sum in which the rank computed.
  double computing_of(const std::string& name) const;
  /// The mean over some of the micro-batches, 0 if there are none. If there is only one, it also counts as a later one.
  double mean_of(ActionKind kind, int stage, std::int64_t micro_batches, Counted counted) const;
  /// Mean costs of a stage. Stage 0's forward reads the images, too. The loss is left out.
  StageCosts stage_costs(int stage, std::int64_t micro_batches, Counted counted) const;
  /// The bytes of the largest O of a stage.
  std::int64_t offloaded_bytes(int stage, std::int64_t micro_batches) const;

 private:
  struct Named {
    std::vector<double> begins;  // by the clock of the rank
    std::vector<double> seconds;
    double computing = 0;    // the sum of all
    std::size_t order = 0;   // in the order in which the names first occur
    std::int64_t bytes = 0;  // of the last one
  };
  const Named* find(const std::string& name) const;

  std::map<std::string, Named> spans_;
};

/// With one micro-batch, a rank may update its classes within H, while the gradients of the embeddings are summed
/// (TrainedParameters::updates_head_early). Subtracts that update from the span of H.
std::vector<Span> without_updates_in_loss(std::vector<Span> spans, int stages);

}  // namespace heddle
