// The progress engine of one process: it sends control messages, dispatches those that arrive, answers those that
// belong to no call, and waits. All progress is made within `poll`, on the only thread of the process that
// communicates. Internal to the transports between processes.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/tensors/tensor.h"
#include "parallel/communicator/transport.h"
#include "parallel/communicator/waited_time.h"
#include "parallel/transports/failure.h"
#include "parallel/transports/processes/deadlock_search.h"
#include "parallel/transports/processes/message.h"
#include "parallel/transports/processes/wire.h"

namespace heddle {

class ElementPath;
class Mark;

/// Identifies a call; all of its ranks use the same name.
struct CallName {
  std::uint64_t group = 0;
  std::uint64_t sequence = 0;
  /// World rank of the peer of a send or receive; nothing for a collective.
  std::optional<int> peer{};
  auto operator<=>(const CallName&) const = default;
};

/// A part of an offered tensor, which its receiver requests once it has the memory for it.
struct Slice {
  int step = 0;  // the step of the call, 0 or 1
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
struct ElementRequest {
  Slice slice;
  int tag = 0;
};

/// The end of a call under way to which control messages are delivered.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual void on_request(int from, const ElementRequest& request) = 0;
  /// The receiver has the complete tensor.
  virtual void on_taken() = 0;
};

/// The messages that have arrived from one rank for one call.
struct Arrival {
  std::optional<Call> call;
  /// Small tensors, which travel within control messages: one per step.
  std::array<std::optional<std::vector<std::byte>>, 2> content;
  /// Present once the rank has reached the call and its elements may move; the content is for the path.
  std::optional<std::vector<std::byte>> ready;
};

/// The elements of a tensor under way; keeps the tensor alive.
struct Transfer {
  Transfer(Tensor x, int other, bool sends) : tensor(std::move(x)), peer(other), is_send(sends) {}
  Tensor tensor;
  int peer;
  bool is_send;
  bool is_done = false;
  std::unique_ptr<WireTransfer> wire;
};

/// What a wait waits for: a control message of the peer, elements that are already under way, or elements that are
/// under way between all ranks of a group. In the last case `peer` is only the first rank that is asked whether it
/// waits, too.
enum class Awaited { message, elements, elements_of_group };

class ProgressEngine {
 public:
  /// Others may take `min_section_timeout` at least to end a section that has not failed, or to begin the next one: one
  /// of them may still measure layers, or write results.
  ProgressEngine(std::unique_ptr<Wire> wire, std::chrono::milliseconds min_section_timeout);
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  Wire& wire() { return *wire_; }
  int rank() const { return wire_->rank(); }
  int size() const { return wire_->size(); }

  // ---- calls of the present section
  std::uint64_t section() const { return section_; }
  bool is_broken() const { return is_broken_; }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds section_timeout() const { return std::max(timeout_, min_section_timeout_); }
  /// Sets the path of elements until the next call; the path must live until then.
  void set_path(ElementPath& path) { path_ = &path; }
  ElementPath& path() { return *path_; }
  void add_endpoint(const CallName& name, Endpoint& endpoint);
  void remove_endpoint(const CallName& name);
  /// The messages that have arrived so far from a rank for a call.
  Arrival& arrival(const CallName& name, int from);
  Arrival take_arrival(const CallName& name, int from);

  /// A control message is begun, written and then sent, once or to several processes.
  enum class Kind : std::uint8_t {
    call,        // the sender has reached a call; with small tensors of its first step
    content,     // small tensors of the second step
    ready,       // the sender has reached the call, and its elements may move
    request,     // an ElementRequest
    taken,       // the receiver of a message has the complete tensor
    path,        // for the ElementPath of the other process
    failed,      // the sender's part of the section has failed
    ended,       // the sender has ended its part of the section
    probe,       // a WaitChain
    waits_too,   // the answer to a probe
    gathered,    // the text that the sender gives to `gather`
    responsive,  // the sender responds, while rank 0 does not
  };
  MessageWriter& begin(Kind kind, const CallName& name);
  /// Begins a message to the path of another process.
  MessageWriter& begin_for_path();
  /// `content` follows what was written.
  void send(int to, std::span<const std::byte> content = {});

  std::shared_ptr<Transfer> send_elements(int to, int tag, const Tensor& tensor,
                                          const std::shared_ptr<const Mark>& computed);
  /// Requests a slice of what another rank offers, as many bytes as the tensor has.
  std::shared_ptr<Transfer> fetch_elements(int from, const CallName& name, const Slice& slice, Tensor tensor);

  void poll();
  /// Returns when `ready` does; throws when world rank `peer`, on which that depends, or any other rank makes it
  /// impossible. The failure is then reported to the other processes, and the path is abandoned.
  void wait(const std::function<bool()>& ready, const Call& call, int peer, Awaited awaited = Awaited::message) {
    wait(ready, call, std::span(&peer, 1), awaited);
  }
  /// The same for a condition that depends on all of these ranks.
  void wait(const std::function<bool()>& ready, const Call& call, std::span<const int> peers, Awaited awaited);

  // ---- between sections
  /// Reports to all processes that this one's part of the present section failed. The first report counts.
  void report(const Failure& failure) { report(failure, section_); }
  /// Reports this exception, unless it only says that another rank failed, and abandons the path.
  void give_up(const std::exception_ptr& exception);
  /// See Job.
  void set_on_silent_leader(std::function<void(const std::string& why)> on_silent_leader) {
    on_silent_leader_ = std::move(on_silent_leader);
  }
  /// Ends the section; returns the failures in it, by rank.
  std::map<int, Failure> conclude();
  std::vector<std::string> gather(const std::string& content);
  void leave(int code);
  /// The reason why a process has ended before it left: `rank 1: its process has ended`.
  std::optional<std::string> why_lost(int process) const;
  bool is_whole() const { return lost_.empty(); }
  /// See Job.
  void set_needed(int processes) { needed_ = processes; }
  /// The processes that did not end their part of the last section.
  const std::set<int>& missing() const { return missing_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Section {
    std::map<std::pair<CallName, int>, Arrival> arrivals;
    std::map<int, Failure> failures;
    std::optional<int> first_failed;
    std::vector<bool> ended;
    // For a section that failed while rank 0 did not respond: the ranks that know this and respond, the time since
    // this rank knows it, and whether one of them has reported it.
    std::set<int> responsive_ranks;
    std::optional<WaitedTime> silence;
    bool is_reported = false;
  };
  /// The present wait of this process.
  struct Waiting {
    std::uint64_t number;
    const Call& call;
    std::span<const int> peers;
    Awaited awaited;
    WaitedTime time;
    std::size_t asked = 0;          // the index of the peer that is asked whether it waits, too
    std::uint64_t answered_in = 0;  // see WaitLink
    Clock::duration peer_waited{};  // when the peer last reported that it waits itself

    int peer() const { return peers[asked]; }
  };
  /// The section number of processes that have left.
  static constexpr std::uint64_t no_more_sections = std::numeric_limits<std::uint64_t>::max();

  Section& section_of(std::uint64_t number);
  void begin(Kind kind, std::uint64_t section);
  void send_to_all();
  void receive_frame(const Wire::Frame& frame);
  void receive_message(int from, std::span<const std::byte> content);
  void dispatch(int from, MessageReader& message);
  static CallName read_call_name(int from, MessageReader& message);
  void keep_arrival(int from, Kind kind, std::uint64_t section, MessageReader& message);
  void dispatch_to_endpoint(int from, Kind kind, std::uint64_t section, MessageReader& message);
  void receive_probe_answer(int from, MessageReader& message);
  void lose(const Wire::Loss& loss);
  void report(const Failure& failure, std::uint64_t section);
  static void record_failure(Section& section, int rank, Failure failure);
  /// See WaitedTime.
  Clock::duration max_gap() const;
  void poll_until(const std::function<bool()>& ready);
  void check_for_failure();
  void check_timeout();
  bool is_sending_to(int peer) const;
  WaitLink own_link() const;
  bool depends_on_peer() const;
  void probe();
  void answer_probes();
  void send_chain(const WaitChain& chain);
  static bool is_late(const Section& section, int rank);
  std::chrono::milliseconds grace(const Section& section) const;
  template <class FirstAwaited>
  bool wait_for_others(const FirstAwaited& awaited, std::chrono::milliseconds limit);
  void report_for_leader();
  void back_off(int idle_polls) const;

  std::unique_ptr<Wire> wire_;
  ElementPath* path_ = nullptr;
  std::chrono::milliseconds timeout_ = std::chrono::minutes(10);
  std::chrono::milliseconds min_section_timeout_;
  std::uint64_t section_ = 0;
  std::map<std::uint64_t, Section> sections_;
  std::vector<bool> left_;  // processes that are past their last section, or gone
  std::map<int, std::string> lost_;
  int needed_;  // the first so many processes: the loss of another one is no failure
  std::set<int> missing_;
  std::map<int, std::deque<std::string>> gathered_;
  std::map<CallName, Endpoint*> endpoints_;
  std::vector<std::shared_ptr<Transfer>> transfers_;
  int next_tag_ = 0;
  MessageWriter message_;
  std::map<int, std::vector<std::byte>> unfinished_;  // messages of several frames, by sender
  std::uint64_t waits_ = 0;
  std::optional<Waiting> waiting_;
  std::vector<std::pair<int, WaitChain>> probes_;  // that arrived in the present wait, with their senders
  DeadlockSearch deadlocks_;
  bool is_oversubscribed_;  // more processes on this machine than cores
  bool is_broken_ = false;
  bool has_concluded_broken_ = false;  // a section has ended since
  bool has_leader_ = true;             // rank 0 is not known to be silent for good
  std::function<void(const std::string& why)> on_silent_leader_;
};

}  // namespace heddle
