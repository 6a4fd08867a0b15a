#include "parallel/tcp/tcp_wire.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <unistd.h>

#include "framework/error.h"
#include "parallel/tcp/tcp_connection.h"
#include "parallel/tcp/tcp_socket.h"

namespace heddle {

namespace {

using Deadline = TcpSocket::Deadline;

/// What a process says of itself when it connects, in the program's own representation.
struct Hello {
  std::array<char, 8> program{'h', 'e', 'd', 'd', 'l', 'e', ' ', '1'};
  std::int32_t rank = 0;
  std::int32_t size = 0;
  TcpAddress address;  // where it listens
  std::array<char, 64> machine{};
};

Hello hello_of(const Launch& launch, const TcpSocket& listening) {
  Hello hello;
  hello.rank = launch.rank;
  hello.size = launch.size;
  hello.address.port = listening.port();
  (void)::gethostname(hello.machine.data(), hello.machine.size() - 1);
  return hello;
}

/// The processes' sockets to each other, while they come together.
class Meeting {
 public:
  Meeting(const Launch& launch, const MeetingPoint& point, std::chrono::milliseconds patience)
      : launch_(launch),
        point_(point),
        patience_(patience),
        deadline_(std::chrono::steady_clock::now() + patience),
        sockets_(static_cast<std::size_t>(launch.size)),
        hellos_(static_cast<std::size_t>(launch.size)) {}

  /// Everybody tells rank 0 where it listens, rank 0 tells everybody, and each connects to those before it.
  void hold() {
    const bool leads = launch_.rank == 0;
    const TcpSocket listening = TcpSocket::listen(leads ? point_.port : std::uint16_t{0}, launch_.size);
    const Hello mine = hello_of(launch_, listening);
    hellos_[static_cast<std::size_t>(launch_.rank)] = mine;
    if (leads) {
      accept_from(listening, 0);
      for (int p = 1; p < launch_.size; ++p)
        if (!socket(p).write(std::as_bytes(std::span(hellos_)), deadline_)) lost(p);
      return;
    }
    const std::string leader = fmt::format("rank 0 at {}:{}", point_.host, point_.port);
    connect(0, TcpSocket::address_of(point_.host, point_.port), leader, mine);
    if (!socket(0).read(std::as_writable_bytes(std::span(hellos_)), deadline_)) lost(0);
    for (int p = 1; p < launch_.rank; ++p)
      connect(p, hellos_[static_cast<std::size_t>(p)].address, fmt::format("rank {}", p), mine);
    accept_from(listening, launch_.rank);
  }

  std::vector<TcpSocket> take_sockets() { return std::move(sockets_); }
  /// This machine's processes before this one, and all of them.
  std::pair<int, int> local() const {
    const auto& mine = hellos_[static_cast<std::size_t>(launch_.rank)].machine;
    const auto is_here = [&mine](const Hello& hello) { return hello.machine == mine; };
    return {static_cast<int>(std::count_if(hellos_.begin(), hellos_.begin() + launch_.rank, is_here)),
            static_cast<int>(std::count_if(hellos_.begin(), hellos_.end(), is_here))};
  }

 private:
  TcpSocket& socket(int p) { return sockets_[static_cast<std::size_t>(p)]; }
  [[noreturn]] static void lost(int p) { fail<RankFailed>("rank {} left while the processes came together", p); }

  void connect(int p, const TcpAddress& address, const std::string& whom, const Hello& mine) {
    socket(p) = TcpSocket::connect(address, whom, deadline_);
    if (!socket(p).write(std::as_bytes(std::span(&mine, 1)), deadline_)) lost(p);
  }

  /// From all ranks after this one.
  void accept_from(const TcpSocket& listening, int after) {
    for (;;) {
      std::vector<int> missing;
      for (int p = after + 1; p < launch_.size; ++p)
        if (!socket(p).is_open()) missing.push_back(p);
      if (missing.empty()) return;
      TcpSocket other = listening.accept(deadline_);
      if (!other.is_open())
        fail<RankFailed>("rank{} {} did not come to {}:{} within {} s", missing.size() == 1 ? "" : "s",
                         fmt::join(missing, ", "), point_.host, point_.port,
                         std::chrono::duration<double>(patience_).count());
      Hello hello;
      // A stranger has no say.
      if (!other.read(std::as_writable_bytes(std::span(&hello, 1)), deadline_) || hello.program != Hello().program)
        continue;
      if (hello.size != launch_.size || hello.rank <= after || hello.rank >= launch_.size ||
          socket(hello.rank).is_open())
        fail<InputError>("WORLD_SIZE and RANK: rank {} of {} came to rank {} of {}", hello.rank, hello.size,
                         launch_.rank, launch_.size);
      hello.address.host = other.host_of_peer();
      hellos_[static_cast<std::size_t>(hello.rank)] = hello;
      socket(hello.rank) = std::move(other);
    }
  }

  Launch launch_;
  const MeetingPoint& point_;
  std::chrono::milliseconds patience_;
  Deadline deadline_;
  std::vector<TcpSocket> sockets_;
  std::vector<Hello> hellos_;
};

class TcpTransfer : public WireTransfer {
 public:
  TcpTransfer(const TcpConnection& connection, std::shared_ptr<TcpConnection::Elements> elements, bool is_send)
      : connection_(connection), elements_(std::move(elements)), is_send_(is_send) {}
  bool is_done() override { return elements_->is_done || (is_send_ && connection_.is_gone()); }
  void cancel() override {}

 private:
  const TcpConnection& connection_;
  std::shared_ptr<TcpConnection::Elements> elements_;
  bool is_send_;
};

class TcpWire : public Wire {
 public:
  TcpWire(const Launch& launch, std::vector<TcpSocket> sockets, std::pair<int, int> local)
      : launch_(launch), local_rank_(launch.local_rank.value_or(local.first)), local_size_(local.second) {
    for (TcpSocket& socket : sockets) connections_.emplace_back(std::move(socket));
    is_gone_.resize(connections_.size());
  }

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  std::string name() const override { return "sockets"; }

  void post(int to, std::span<const std::byte> words, std::span<const std::byte> content, bool more_follow) override {
    connection(to).post(words, content, more_follow);
  }
  std::optional<Sheet> next_sheet() override {
    if (const std::optional<Sheet> sheet = first_sheet()) return sheet;
    for (TcpConnection& other : connections_) other.progress();
    return first_sheet();
  }
  std::optional<int> next_gone() override {
    for (int p = 0; p < size(); ++p) {
      if (is_gone_[static_cast<std::size_t>(p)] || !connection(p).is_gone()) continue;
      is_gone_[static_cast<std::size_t>(p)] = true;
      return p;
    }
    return {};
  }

  std::unique_ptr<WireTransfer> send(int to, int tag, const void* data, std::int64_t bytes) override {
    auto elements = make_elements(tag, const_cast<void*>(data), bytes);
    if (bytes > 0) connection(to).send(elements);
    return std::make_unique<TcpTransfer>(connection(to), std::move(elements), true);
  }
  std::unique_ptr<WireTransfer> receive(int from, int tag, void* data, std::int64_t bytes) override {
    auto elements = make_elements(tag, data, bytes);
    if (bytes > 0) connection(from).receive(elements);
    return std::make_unique<TcpTransfer>(connection(from), std::move(elements), false);
  }

  bool plain(Operation /*operation*/, std::span<float> /*in*/, std::span<float> /*out*/) override { return false; }

  void leave() override {
    // What was said last is still to be written; others have said their last.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const auto is_written = [](const TcpConnection& other) { return other.is_idle() || other.is_gone(); };
    while (!std::all_of(connections_.begin(), connections_.end(), is_written) &&
           std::chrono::steady_clock::now() < deadline) {
      for (TcpConnection& other : connections_) other.progress();
      std::this_thread::yield();
    }
    abort(0);
  }
  void abort(int /*code*/) override {
    for (TcpConnection& other : connections_) other.close();
  }

 private:
  static std::shared_ptr<TcpConnection::Elements> make_elements(int tag, void* data, std::int64_t bytes) {
    return std::make_shared<TcpConnection::Elements>(
        TcpConnection::Elements{static_cast<std::byte*>(data), bytes, tag, bytes == 0});
  }
  TcpConnection& connection(int p) { return connections_[static_cast<std::size_t>(p)]; }
  std::optional<Sheet> first_sheet() {
    for (int p = 0; p < size(); ++p)
      if (auto sheet = connection(p).next_sheet()) {
        read_ = std::move(*sheet);
        return Sheet{p, read_.content, read_.more_follow};
      }
    return {};
  }

  Launch launch_;
  int local_rank_;
  int local_size_;
  std::vector<TcpConnection> connections_;  // this process's own has no socket
  std::vector<bool> is_gone_;
  TcpConnection::Sheet read_;
};

}  // namespace

bool has_meeting_point() {
  return std::getenv("MASTER_ADDR") != nullptr && std::getenv("MASTER_PORT") != nullptr;
}

std::optional<MeetingPoint> meeting_point_of_environment() {
  if (!has_meeting_point()) return {};
  const char* const port = std::getenv("MASTER_PORT");
  MeetingPoint point{std::getenv("MASTER_ADDR"), 0};
  const char* const end = port + std::strlen(port);
  if (const auto read = std::from_chars(port, end, point.port); read.ec != std::errc{} || read.ptr != end)
    fail<InputError>("MASTER_PORT: expected a port, got '{}'", port);
  return point;
}

std::unique_ptr<Wire> join_by_tcp(const Launch& launch, const MeetingPoint& meeting_point,
                                  std::chrono::milliseconds patience) {
  if (launch.rank < 0 || launch.rank >= launch.size)
    fail<InputError>("RANK: expected one of [0, {}), got {}", launch.size, launch.rank);
  Meeting meeting(launch, meeting_point, patience);
  meeting.hold();
  return std::make_unique<TcpWire>(launch, meeting.take_sockets(), meeting.local());
}

}  // namespace heddle
