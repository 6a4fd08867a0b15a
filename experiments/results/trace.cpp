#include "experiments/results/trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/description/printable.h"

namespace heddle {

namespace {

// Sends have a track of their own: they last while the rank goes on to receive.
enum Track { compute, communication, sends };

bool is_send(const Span& span, int rank) {
  return span.message && span.message->from == rank;
}

Track track_of(const Span& span, int rank) {
  if (!span.is_communication) return compute;
  return is_send(span, rank) ? sends : communication;
}

/// Numbers the messages of which both ends were recorded. Two communicators may have messages of the same name: the
/// first that was sent is the first that was received.
class Arrows {
 public:
  void add(const VariantResult& variant) {
    std::map<MessageName, std::pair<std::vector<const Span*>, std::vector<const Span*>>> ends;
    for (const RankResult& rank : variant.ranks)
      for (const Span& span : rank.trace)
        if (span.message) {
          auto& [sent, received] = ends[*span.message];
          (is_send(span, rank.rank) ? sent : received).push_back(&span);
        }
    for (const auto& [name, both] : ends)
      for (std::size_t i = 0; i < std::min(both.first.size(), both.second.size()); ++i) {
        ++count_;
        numbers_[both.first[i]] = count_;
        numbers_[both.second[i]] = count_;
      }
  }
  /// 0: none.
  std::int64_t operator[](const Span& span) const {
    const auto place = numbers_.find(&span);
    return place == numbers_.end() ? 0 : place->second;
  }

 private:
  std::unordered_map<const Span*, std::int64_t> numbers_;
  std::int64_t count_ = 0;
};

class Writer {
 public:
  explicit Writer(AtomicFile& file) : file_(file) { file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["); }
  void end() { file_.write("\n]}\n"); }

  void label(std::string_view kind, int rank, int track, std::string_view name) {
    write(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", kind, rank, track,
                      json_string(name)));
  }

  void interval(const Span& event, int rank, double offset, std::string_view variant) {
    std::string arguments = "\"variant\":" + json_string(variant);
    if (event.is_communication) arguments += fmt::format(",\"bytes\":{}", event.bytes);
    write(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                      json_string(event.name), event.is_communication ? "communication" : "compute", rank,
                      static_cast<int>(track_of(event, rank)), (event.begin_seconds + offset) * microseconds,
                      event.seconds * microseconds, arguments));
  }

  /// From the begin of a send to the end of its receive.
  void arrow_end(const Span& event, int rank, std::int64_t number, double offset) {
    constexpr double within = 1e-9;  // the arrow belongs to the interval around its time
    const bool starts = is_send(event, rank);
    const double at = event.begin_seconds + (starts ? 0 : std::max(0.0, event.seconds - within));
    write(fmt::format(R"({{"ph":"{}","name":"message","cat":"message","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
                      starts ? "s" : R"(f","bp":"e)", number, rank, static_cast<int>(track_of(event, rank)),
                      (at + offset) * microseconds));
  }

 private:
  static constexpr double microseconds = 1e6;

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
  writer.label("thread_name", rank.rank, sends, "sends");
}

}  // namespace

void write_trace(AtomicFile& file, const RunResult& run) {
  Writer writer(file);
  std::set<int> named;
  Arrows arrows;
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
    arrows.add(variant);
    for (const RankResult& rank : variant.ranks) {
      if (named.insert(rank.rank).second) name_tracks(writer, rank);
      for (const Span& event : rank.trace) {
        writer.interval(event, rank.rank, offset, variant.name);
        if (const std::int64_t number = arrows[event]; number != 0) writer.arrow_end(event, rank.rank, number, offset);
      }
    }
    if (end > 0) end_before = end + offset;
  }
  writer.end();
}

}  // namespace heddle
