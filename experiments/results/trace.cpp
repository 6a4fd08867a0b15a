#include "experiments/results/trace.h"

#include <algorithm>
#include <limits>
#include <set>

#include "experiments/config/json_text.h"

namespace heddle {

namespace {

enum Track { compute, communication };

class Writer {
 public:
  explicit Writer(AtomicFile& file) : file_(file) { file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["); }
  void end() { file_.write("\n]}\n"); }

  void label(std::string_view kind, int rank, int track, std::string_view name) {
    write(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", kind, rank, track,
                      json_string(name)));
  }

  void interval(const Span& event, int rank, Track track, double offset, std::string_view variant) {
    constexpr double microseconds = 1e6;
    std::string arguments = "\"variant\":" + json_string(variant);
    if (event.is_communication) arguments += fmt::format(",\"bytes\":{}", event.bytes);
    write(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                      json_string(event.name), event.is_communication ? "communication" : "compute", rank,
                      static_cast<int>(track), (event.begin_seconds + offset) * microseconds,
                      event.seconds * microseconds, arguments));
  }

 private:
  void write(const std::string& event) {
    file_.write(is_first_ ? "\n" : ",\n");
    file_.write(event);
    is_first_ = false;
  }

  AtomicFile& file_;
  bool is_first_ = true;
};

void name_tracks(Writer& writer, const RankResult& rank) {
  writer.label("process_name", rank.rank, compute, fmt::format("rank {}", rank.rank));
  writer.label("thread_name", rank.rank, compute, "compute");
  writer.label("thread_name", rank.rank, communication, "communication");
}

}  // namespace

void write_trace(AtomicFile& file, const RunResult& run) {
  Writer writer(file);
  std::set<int> named;
  double end_before = 0;
  for (const VariantResult& variant : run.variants) {
    double begin = std::numeric_limits<double>::infinity();
    double end = 0;
    for (const RankResult& rank : variant.ranks) {
      for (const Span& event : rank.trace) {
        begin = std::min(begin, event.begin_seconds);
        end = std::max(end, event.begin_seconds + event.seconds);
      }
    }
    const double offset = std::max(0.0, end_before - begin);
    for (const RankResult& rank : variant.ranks) {
      if (named.insert(rank.rank).second) name_tracks(writer, rank);
      for (const Span& event : rank.trace)
        writer.interval(event, rank.rank, event.is_communication ? communication : compute, offset, variant.name);
    }
    if (end > 0) end_before = end + offset;
  }
  writer.end();
}

}  // namespace heddle
