#include "experiments/results/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/description/printable.h"

namespace heddle {

namespace {

// Sends have a track of their own, because a send lasts while the rank goes on to receive.
enum Track { compute, communication, sends };
constexpr int kinds_of_track = 3;
constexpr std::array<std::string_view, kinds_of_track> track_names{"compute", "communication", "sends"};

bool is_send(const Span& span, int rank) {
  return span.message && span.message->from == rank;
}

Track track_of(const Span& span, int rank) {
  if (!span.is_communication) return compute;
  return is_send(span, rank) ? sends : communication;
}

/// The number of a track: there are as many of each kind of communication as overlap, for viewers drop what overlaps on
/// one track. Computations lie within each other or apart.
class Tracks {
 public:
  int take(Track kind, const Span& span) {
    std::vector<double>& ends = ends_[kind];
    std::size_t index = 0;
    if (kind != compute)
      while (index < ends.size() && ends[index] > span.begin_seconds) ++index;
    if (index == ends.size()) ends.push_back(0);
    ends[index] = span.begin_seconds + span.seconds;
    return static_cast<int>(index) * kinds_of_track + kind;
  }

 private:
  std::array<std::vector<double>, kinds_of_track> ends_;  // the end of the last span on each track
};

/// The track of each span of a rank, in the order of the spans. Spans may be recorded when they end.
std::vector<int> tracks_of(const RankResult& rank) {
  std::vector<std::size_t> order(rank.trace.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return rank.trace[a].begin_seconds < rank.trace[b].begin_seconds;
  });
  Tracks tracks;
  std::vector<int> taken(rank.trace.size());
  for (const std::size_t i : order) taken[i] = tracks.take(track_of(rank.trace[i], rank.rank), rank.trace[i]);
  return taken;
}

/// Numbers the messages of which both ends were recorded: each becomes a flow, which viewers draw as an arrow. Two
/// communicators may have messages of the same name: the first that was sent is the first that was received.
class MessageFlows {
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
  /// The number of the flow to which a span belongs.
  std::optional<std::int64_t> flow_of(const Span& span) const {
    const auto found = numbers_.find(&span);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::unordered_map<const Span*, std::int64_t> numbers_;
  std::int64_t count_ = 0;
};

class TraceWriter {
 public:
  explicit TraceWriter(AtomicFile& file) : file_(file) { file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["); }
  void end() { file_.write("\n]}\n"); }

  void label(std::string_view kind, int rank, int track, std::string_view name) {
    write(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", kind, rank, track,
                      json_string(name)));
  }

  void interval(const Span& event, int rank, int track, double offset, std::string_view variant) {
    std::string arguments = "\"variant\":" + json_string(variant);
    if (event.is_communication) arguments += fmt::format(",\"bytes\":{}", event.bytes);
    // Both ends are rounded, not the duration: a span that ends where the next one begins must not overlap it by a
    // nanosecond.
    const double begin = std::round((event.begin_seconds + offset) * nanoseconds);
    const double end = std::round((event.begin_seconds + event.seconds + offset) * nanoseconds);
    write(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                      json_string(event.name), event.is_communication ? "communication" : "compute", rank, track,
                      begin * 1e-3, (end - begin) * 1e-3, arguments));
  }

  /// One end of a flow, which leads from the begin of a send to the end of its receive.
  void flow_end(const Span& event, int rank, int track, std::int64_t flow, double offset) {
    constexpr double within = 1e-9;  // a flow's end belongs to the interval around its time
    const bool starts = is_send(event, rank);
    const double at = event.begin_seconds + (starts ? 0 : std::max(0.0, event.seconds - within));
    write(fmt::format(R"({{"ph":"{}","name":"message","cat":"message","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
                      starts ? "s" : R"(f","bp":"e)", flow, rank, track, (at + offset) * microseconds));
  }

 private:
  static constexpr double microseconds = 1e6;
  static constexpr double nanoseconds = 1e9;

  void write(const std::string& event) {
    file_.write(is_first_ ? "\n" : ",\n");
    file_.write(event);
    is_first_ = false;
  }

  AtomicFile& file_;
  bool is_first_ = true;
};

/// Writes the names of ranks and of their tracks, each once.
class TrackLabels {
 public:
  explicit TrackLabels(TraceWriter& writer) : writer_(writer) {}

  /// Labels a rank and its tracks up to `last_track`, and at least one of each kind.
  void add(int rank, int last_track) {
    int& named = named_[rank];
    if (named == 0) writer_.label("process_name", rank, compute, fmt::format("rank {}", rank));
    for (; named <= std::max(last_track, kinds_of_track - 1); ++named) {
      const int number = named / kinds_of_track + 1;
      const std::string_view kind = track_names.at(static_cast<std::size_t>(named % kinds_of_track));
      writer_.label("thread_name", rank, named, number == 1 ? std::string(kind) : fmt::format("{} {}", kind, number));
    }
  }

 private:
  TraceWriter& writer_;
  std::map<int, int> named_;  // how many tracks of each rank
};

}  // namespace

void write_trace(AtomicFile& file, const RunResult& run) {
  TraceWriter writer(file);
  TrackLabels labels(writer);
  MessageFlows flows;
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
    flows.add(variant);
    for (const RankResult& rank : variant.ranks) {
      const std::vector<int> tracks = tracks_of(rank);
      labels.add(rank.rank, tracks.empty() ? 0 : *std::max_element(tracks.begin(), tracks.end()));
      for (std::size_t i = 0; i < tracks.size(); ++i) {
        const Span& event = rank.trace[i];
        writer.interval(event, rank.rank, tracks[i], offset, variant.name);
        if (const std::optional<std::int64_t> flow = flows.flow_of(event))
          writer.flow_end(event, rank.rank, tracks[i], *flow, offset);
      }
    }
    if (end > 0) end_before = end + offset;
  }
  writer.end();
}

}  // namespace heddle
