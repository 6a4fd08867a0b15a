// One process's letters: sorts what comes, answers what concerns no call, and waits. Internal to the transport of many
// processes. All progress is made within `poll`, on the process's only communicating thread.
#pragma once

#include <array>
#include <chrono>
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
#include <tuple>
#include <vector>

#include "framework/tensors/tensor.h"
#include "parallel/communicator/transport.h"
#include "parallel/communicator/waited_time.h"
#include "parallel/transports/processes/deadlock_search.h"
#include "parallel/transports/processes/message.h"
#include "parallel/transports/processes/processes.h"
#include "parallel/transports/processes/wire.h"

namespace heddle {

class ElementPath;
class Mark;

/// Names an exchange, alike on all its ranks.
struct ExchangeName {
  std::uint64_t group = 0;
  std::uint64_t sequence = 0;
  /// World rank of the other side of a message; -1: a collective.
  int other = -1;
  bool operator<(const ExchangeName& name) const {
    return std::tie(group, sequence, other) < std::tie(name.group, name.sequence, name.other);
  }
};

/// Part of what was offered, asked for by its receiver, who holds the memory ready for it.
struct Slice {
  int step = 0;  // of the exchange, 0 or 1
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
struct ElementRequest {
  Slice slice;
  int tag = 0;
};

/// An exchange under way, as its letters see it.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual void on_request(int from, const ElementRequest& request) = 0;
  /// The receiver has all of the message.
  virtual void on_taken() = 0;
};

/// What a rank said in an exchange.
struct Arrival {
  std::optional<Call> call;
  /// Small tensors travel with the words, one a step.
  std::array<std::optional<std::vector<std::byte>>, 2> content;
  /// That it has come to the call and its elements may move: with words of its path.
  std::optional<std::vector<std::byte>> ready;
};

/// A tensor's elements on their way. Keeps them alive.
struct Transfer {
  Transfer(Tensor x, int other, bool sends) : tensor(std::move(x)), peer(other), is_send(sends) {}
  Tensor tensor;
  int peer;
  bool is_send;
  bool is_done = false;
  std::unique_ptr<WireTransfer> wire;
  std::shared_ptr<Transfer> keeper;  // itself, when it cannot be ended any more
};

/// What a wait waits for: a word of the peer, elements that are under way already, or elements that are under way
/// between all of a group, where `peer` is but the first to be asked whether it waits, too.
enum class Awaited { word, elements, elements_of_group };

class ProgressEngine {
 public:
  explicit ProgressEngine(std::unique_ptr<Wire> wire);
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  Wire& wire() { return *wire_; }
  int rank() const { return wire_->rank(); }
  int size() const { return wire_->size(); }

  // ---- exchanges of the present section
  std::uint64_t section() const { return section_; }
  bool is_broken() const { return is_broken_; }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  /// How elements travel until the next such call; the path must live until then.
  void set_path(ElementPath& path) { path_ = &path; }
  ElementPath& path() { return *path_; }
  void add_endpoint(const ExchangeName& name, Endpoint& endpoint);
  void remove_endpoint(const ExchangeName& name);
  /// What a rank said so far.
  Arrival& arrival(const ExchangeName& name, int from);
  Arrival take_arrival(const ExchangeName& name, int from);

  /// A letter about an exchange is begun, written and sent.
  enum class Kind : std::uint8_t {
    call,
    content,
    ready,
    request,
    taken,
    path,
    failed,
    ended,
    probe,
    waits_too,
    gathered,
    responsive
  };
  MessageWriter& begin(Kind kind, const ExchangeName& name);
  /// A letter to another process's path.
  MessageWriter& begin_for_path();
  /// `content` comes after its words.
  void send(int to, std::span<const std::byte> content = {});

  std::shared_ptr<Transfer> send_elements(int to, int tag, const Tensor& tensor,
                                          const std::shared_ptr<const Mark>& computed);
  /// Asks for a slice of what was offered here; its bytes are the tensor's.
  std::shared_ptr<Transfer> fetch_elements(int from, const ExchangeName& name, const Slice& slice, Tensor tensor);

  void poll();
  /// Returns when `ready`; throws when world rank `peer`, on which that depends, or any other makes it impossible. The
  /// others are told then, and the path is abandoned.
  void wait(const std::function<bool()>& ready, const Call& call, int peer, Awaited awaited = Awaited::word) {
    wait(ready, call, std::span(&peer, 1), awaited);
  }
  /// The same where it depends on all of these.
  void wait(const std::function<bool()>& ready, const Call& call, std::span<const int> peers, Awaited awaited);

  // ---- between sections
  /// Tells everybody that this process's part of the present section failed; the first time counts.
  void report(const Failure& failure) { report(failure, section_); }
  /// The same of what was thrown, unless others did; and abandons the path.
  void give_up(const std::exception_ptr& exception);
  /// See Processes.
  void set_on_silent_leader(std::function<void(const std::string& why)> on_silent_leader) {
    on_silent_leader_ = std::move(on_silent_leader);
  }
  /// Ends the section; gives what failed in it, by rank.
  std::map<int, Failure> conclude();
  std::vector<std::string> gather(const std::string& content);
  void leave(int code);
  /// Of a process that was gone before it left: `rank 1: its process is gone`.
  std::optional<std::string> lost(int process) const;
  bool is_whole() const { return lost_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Section {
    std::map<std::pair<ExchangeName, int>, Arrival> arrivals;
    std::map<int, Failure> failures;
    int first_failed = -1;
    std::vector<bool> ended;
    // Of one that failed because rank 0 did not come: which ranks know that and are there, since when this one knows,
    // and whether one has reported it.
    std::set<int> responsive_ranks;
    std::optional<WaitedTime> silence;
    bool is_reported = false;
  };
  /// What this process waits for at present.
  struct Waiting {
    Waiting(std::uint64_t n, const Call& c, std::span<const int> p, Awaited a, Clock::duration longest_gap)
        : number(n), call(c), peers(p), awaited(a), time(longest_gap) {}
    int peer() const { return peers[asked]; }
    std::uint64_t number;
    const Call& call;
    std::span<const int> peers;
    Awaited awaited;
    std::size_t asked = 0;
    std::uint64_t answered_in = 0;  // see WaitLink
    WaitedTime time;
    Clock::duration peer_waited{};  // when the peer last said that it waits itself
  };
  /// The section of those that have left.
  static constexpr std::uint64_t no_more_sections = std::numeric_limits<std::uint64_t>::max();

  Section& section_of(std::uint64_t number);
  void begin(Kind kind, std::uint64_t section);
  void send_to_all();
  void deliver(const Wire::Frame& frame);
  void open(int from, std::span<const std::byte> message);
  void sort(int from, MessageReader& message);
  void open_exchange(int from, Kind kind, std::uint64_t section, MessageReader& message);
  void lose(const Wire::Gone& gone);
  void report(const Failure& failure, std::uint64_t section);
  static void remember_failure(Section& section, int rank, Failure failure);
  Clock::duration longest_gap() const;
  void wait_patiently(const std::function<bool()>& ready);
  void check();
  void check_time();
  bool is_sending_to(int peer) const;
  WaitLink own_link() const;
  bool depends_on_peer() const;
  void probe();
  void answer_probes();
  void send_chain(const WaitChain& chain);
  template <class Ready>
  bool wait_for_others(const Ready& ready);
  void report_for_leader();
  void rest(int idle_polls) const;

  std::unique_ptr<Wire> wire_;
  ElementPath* path_ = nullptr;
  std::chrono::milliseconds timeout_ = std::chrono::minutes(10);
  std::uint64_t section_ = 0;
  std::map<std::uint64_t, Section> sections_;
  std::vector<bool> left_;  // processes that are past their last section, or gone
  std::map<int, std::string> lost_;
  std::map<int, std::deque<std::string>> gathered_;
  std::map<ExchangeName, Endpoint*> endpoints_;
  std::vector<std::shared_ptr<Transfer>> transfers_;
  int next_tag_ = 0;
  MessageWriter message_;
  std::map<int, std::vector<std::byte>> unfinished_;  // letters of several sheets
  std::uint64_t waits_ = 0;
  std::optional<Waiting> waiting_;
  std::vector<std::pair<int, WaitChain>> probes_;  // that came in the present wait, with who sent them on
  DeadlockSearch deadlocks_;
  bool is_crowded_;
  bool is_broken_ = false;
  bool has_leader_ = true;  // rank 0 is not known to be silent for good
  std::function<void(const std::string& why)> on_silent_leader_;
};

}  // namespace heddle
