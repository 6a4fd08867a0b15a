#include "tests/support/processes/nccl_on_host.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace heddle::test {

namespace {

// How long an abort may wait for others.
constexpr std::chrono::seconds abort_time{20};

/// One call on a rank's stream.
struct Entry {
  enum class Kind { connect, exchange, all_gather, broadcast } kind;
  std::vector<NcclPiece> sends;
  std::vector<NcclPiece> receives;
  const void* own = nullptr;
  void* data = nullptr;
  std::int64_t bytes = 0;
  int root = 0;
};

/// One rank's stream.
struct Stream {
  bool has_joined = false;
  bool is_connected = false;
  bool is_aborted = false;
  bool is_closed = false;
  bool is_over() const { return is_aborted || is_closed; }
  std::deque<Entry> entries;
  std::uint64_t put = 0;
  std::uint64_t done = 0;
};

struct Team {
  explicit Team(int ranks) : streams(static_cast<std::size_t>(ranks)) {}
  std::vector<Stream> streams;
  std::string error;
};

bool move_piece(Team& team, int from, NcclPiece& send) {
  Stream& receiver = team.streams[static_cast<std::size_t>(send.peer)];
  if (receiver.is_aborted || receiver.entries.empty()) return false;
  std::vector<NcclPiece>& receives = receiver.entries.front().receives;
  const auto match = std::find_if(receives.begin(), receives.end(), [&](const NcclPiece& r) { return r.peer == from; });
  if (match == receives.end()) return false;
  if (match->bytes != send.bytes) team.error = "a send and its receive are of different sizes";
  std::memcpy(match->data, send.data, static_cast<std::size_t>(std::min(match->bytes, send.bytes)));
  receives.erase(match);
  return true;
}

/// Whether all ranks have come to this call; false and an error if one has come to another.
bool are_all_at(Team& team, const Entry& entry) {
  for (const Stream& stream : team.streams) {
    if (stream.is_aborted || stream.entries.empty()) return false;
    const Entry& other = stream.entries.front();
    if (other.kind == entry.kind && other.bytes == entry.bytes && other.root == entry.root) continue;
    team.error = "the ranks' calls do not match";
    return false;
  }
  return true;
}

void do_collective(Team& team) {
  const Entry entry = team.streams[0].entries.front();
  const auto bytes = static_cast<std::size_t>(entry.bytes);
  for (std::size_t to = 0; to < team.streams.size(); ++to)
    for (std::size_t from = 0; from < team.streams.size(); ++from) {
      if (entry.kind == Entry::Kind::connect) continue;
      if (entry.kind == Entry::Kind::broadcast && static_cast<int>(from) != entry.root) continue;
      const Entry& source = team.streams[from].entries.front();
      const Entry& target = team.streams[to].entries.front();
      const bool gathers = entry.kind == Entry::Kind::all_gather;
      std::memmove(static_cast<std::byte*>(target.data) + (gathers ? from * bytes : 0),
                   gathers ? source.own : source.data, bytes);
    }
  for (Stream& stream : team.streams) {
    stream.entries.pop_front();
    ++stream.done;
    stream.is_connected = true;
  }
}

/// Does what can be done.
void advance(Team& team) {
  for (bool has_moved = true; has_moved && team.error.empty();) {
    has_moved = false;
    for (std::size_t rank = 0; rank < team.streams.size(); ++rank) {
      Stream& stream = team.streams[rank];
      if (stream.is_aborted || stream.entries.empty()) continue;
      Entry& entry = stream.entries.front();
      if (entry.kind != Entry::Kind::exchange) {
        if (!are_all_at(team, entry)) continue;
        do_collective(team);
        has_moved = true;
        continue;
      }
      has_moved |= std::erase_if(entry.sends,
                                 [&](NcclPiece& send) { return move_piece(team, static_cast<int>(rank), send); }) > 0;
      if (!entry.sends.empty() || !entry.receives.empty()) continue;
      stream.entries.pop_front();
      ++stream.done;
      has_moved = true;
    }
  }
}

}  // namespace

struct NcclOnHost::Shared {
  std::mutex mutex;
  std::condition_variable has_ended;
  std::map<NcclId, std::shared_ptr<Team>> teams;
  std::map<std::thread::id, std::vector<Stream*>> gpus;  // a rank's is its thread's
  std::map<std::thread::id, const Device*> devices;      // that compute on them
  bool was_stuck = false;
  std::uint64_t ids = 0;
  Fault fault;
  Counts counts;
};

namespace {

class StreamMark : public GpuMark {
 public:
  StreamMark(std::shared_ptr<NcclOnHost::Shared> shared, std::shared_ptr<Team> team, int rank)
      : shared_(std::move(shared)), team_(std::move(team)), rank_(static_cast<std::size_t>(rank)) {
    const std::lock_guard lock(shared_->mutex);
    put_ = team_->streams[rank_].put;
  }
  bool is_reached() override {
    const std::lock_guard lock(shared_->mutex);
    const NcclOnHost::Fault& fault = shared_->fault;
    const bool is_meant = fault.ranks == static_cast<int>(team_->streams.size()) && put_ > 1;  // not to connect
    if (fault.kind == NcclOnHost::Fault::Kind::no_end && is_meant) return false;
    advance(*team_);
    return team_->streams[rank_].done >= put_;
  }

 private:
  std::shared_ptr<NcclOnHost::Shared> shared_;
  std::shared_ptr<Team> team_;
  std::size_t rank_;
  std::uint64_t put_;
};

class CommunicatorOnHost : public NcclCommunicator {
 public:
  CommunicatorOnHost(std::shared_ptr<NcclOnHost::Shared> shared, std::shared_ptr<Team> team, int rank, NcclUse use,
                     const Device& device)
      : shared_(std::move(shared)), team_(std::move(team)), rank_(rank), use_(use), device_(device) {}
  ~CommunicatorOnHost() override {
    if (is_finalized_) {
      const std::lock_guard lock(shared_->mutex);
      stream().is_closed = true;
      ++shared_->counts.closed;
      shared_->has_ended.notify_all();
    } else if (!is_aborted_) {
      end();
    }
  }

  bool is_idle() override {
    const std::lock_guard lock(shared_->mutex);
    const NcclOnHost::Fault& fault = shared_->fault;
    if (fault.kind == NcclOnHost::Fault::Kind::error && is_meant(fault) && stream().put > 1)
      fail<ElementsLost>("NCCL: unhandled system error");
    if (!team_->error.empty()) fail<ElementsLost>("NCCL: {}", team_->error);
    for (const Stream& stream : team_->streams)
      if (!stream.has_joined) return false;
    const bool is_slow = fault.kind == NcclOnHost::Fault::Kind::slow && is_meant(fault);
    if (is_slow && std::chrono::steady_clock::now() < joined_ + fault.nap) return false;
    if (polls_ >= 0) --polls_;
    return polls_ < 0;
  }
  /// The stream knows nothing of the device's: the device does what the mark stands behind at once.
  void wait_for(const Mark& /*mark*/) override { device_.backend().settle(); }
  std::unique_ptr<GpuMark> mark() override {
    if (polls_ >= 0) fail("a mark before the call is on the stream");
    return std::make_unique<StreamMark>(shared_, team_, rank_);
  }

  void connect() override {
    if (stream().put > 0) fail("a communicator is connected after its first call");
    put({.kind = Entry::Kind::connect, .sends = {}, .receives = {}}, nullptr);
  }
  void exchange(std::span<const NcclPiece> sends, std::span<const NcclPiece> receives) override {
    if (use_ == NcclUse::messages && !(rank_ == 0 ? receives : sends).empty()) fail("a message the wrong way");
    put({.kind = Entry::Kind::exchange,
         .sends = {sends.begin(), sends.end()},
         .receives = {receives.begin(), receives.end()}},
        &NcclOnHost::Counts::exchanges);
  }
  void all_gather(const void* own, void* all, std::int64_t bytes) override {
    if (use_ == NcclUse::messages) fail("a collective where messages go");
    put({.kind = Entry::Kind::all_gather, .sends = {}, .receives = {}, .own = own, .data = all, .bytes = bytes},
        &NcclOnHost::Counts::all_gathers);
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    if (use_ == NcclUse::messages) fail("a collective where messages go");
    put({.kind = Entry::Kind::broadcast, .sends = {}, .receives = {}, .data = data, .bytes = bytes, .root = root},
        &NcclOnHost::Counts::broadcasts);
  }

  void finalize() override {
    const std::lock_guard lock(shared_->mutex);
    if (!stream().entries.empty()) fail("a communicator is closed with calls under way");
    is_finalized_ = true;
  }
  void abort() noexcept override {
    end();
    std::unique_lock lock(shared_->mutex);
    const auto may_end = [&] {
      const std::vector<Stream*>& own = shared_->gpus.at(thread_);
      return std::all_of(own.begin(), own.end(), [](const Stream* s) { return s->entries.empty(); }) &&
             std::all_of(team_->streams.begin(), team_->streams.end(),
                         [](const Stream& s) { return s.is_over() || !s.has_joined; });
    };
    if (!shared_->has_ended.wait_for(lock, abort_time, may_end)) shared_->was_stuck = true;
  }

 private:
  Stream& stream() { return team_->streams[static_cast<std::size_t>(rank_)]; }
  bool is_meant(const NcclOnHost::Fault& fault) const {
    return fault.ranks == static_cast<int>(team_->streams.size()) && fault.rank == rank_;
  }
  void put(Entry entry, int NcclOnHost::Counts::*count) {
    std::unique_lock lock(shared_->mutex);
    if (polls_ >= 0) fail("a call before the last one is on the stream");
    for (const Stream* other : shared_->gpus.at(thread_))
      if (other != &stream() && !other->is_connected && !other->is_over())
        fail("a call on a GPU on which a communicator comes into existence");
    if (const NcclOnHost::Fault fault = shared_->fault;
        fault.kind == NcclOnHost::Fault::Kind::nap && is_meant(fault) && entry.kind != Entry::Kind::connect) {
      lock.unlock();
      std::this_thread::sleep_for(fault.nap);
      lock.lock();
    }
    stream().entries.push_back(std::move(entry));
    ++stream().put;
    if (count != nullptr) ++(shared_->counts.*count);
    polls_ = 2;
  }
  void end() {
    const std::lock_guard lock(shared_->mutex);
    stream().is_aborted = true;
    stream().entries.clear();
    ++shared_->counts.aborted;
    is_aborted_ = true;
    shared_->has_ended.notify_all();
  }

  std::shared_ptr<NcclOnHost::Shared> shared_;
  std::shared_ptr<Team> team_;
  int rank_;
  NcclUse use_;
  const Device& device_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point joined_ = std::chrono::steady_clock::now();
  int polls_ = 2;  // until it is idle
  bool is_finalized_ = false;
  bool is_aborted_ = false;
};

}  // namespace

NcclOnHost::NcclOnHost() : shared_(std::make_shared<Shared>()) {}
NcclOnHost::~NcclOnHost() = default;

NcclId NcclOnHost::new_id() {
  const std::lock_guard lock(shared_->mutex);
  NcclId id{};
  ++shared_->ids;
  std::memcpy(id.data(), &shared_->ids, sizeof(shared_->ids));
  return id;
}

NcclGpu NcclOnHost::gpu(const Device& device) {
  const int number = sharing_ && device.rank() == sharing_->second ? sharing_->first : device.rank();
  NcclGpu gpu{.machine = "node1", .address = fmt::format("0000:{:02X}:00.0", number)};
  std::memcpy(gpu.id.data(), &number, sizeof(number));
  const std::lock_guard lock(shared_->mutex);
  shared_->devices[std::this_thread::get_id()] = &device;
  return gpu;
}

std::unique_ptr<NcclCommunicator> NcclOnHost::join(const NcclId& id, int ranks, int rank, NcclUse use) {
  const std::lock_guard lock(shared_->mutex);
  std::shared_ptr<Team>& team = shared_->teams[id];
  if (team == nullptr) team = std::make_shared<Team>(ranks);
  Stream& stream = team->streams.at(static_cast<std::size_t>(rank));
  if (static_cast<int>(team->streams.size()) != ranks || stream.has_joined) fail("a communicator is joined wrongly");
  std::vector<Stream*>& own = shared_->gpus[std::this_thread::get_id()];
  for (const Stream* other : own)
    if (!other->is_over() && (!other->is_connected || !other->entries.empty()))
      fail("a communicator comes into existence on a GPU where another has calls under way");
  own.push_back(&stream);
  stream.has_joined = true;
  ++shared_->counts.communicators;
  return std::make_unique<CommunicatorOnHost>(shared_, team, rank, use,
                                              *shared_->devices.at(std::this_thread::get_id()));
}

void NcclOnHost::set_fault(const Fault& fault) {
  const std::lock_guard lock(shared_->mutex);
  shared_->fault = fault;
}

NcclOnHost::Counts NcclOnHost::counts() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->counts;
}

bool NcclOnHost::is_clean() const {
  const std::lock_guard lock(shared_->mutex);
  const Counts& now = shared_->counts;
  return now.communicators == now.closed + now.aborted && !shared_->was_stuck;
}

}  // namespace heddle::test
