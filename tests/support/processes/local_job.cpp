#include "tests/support/processes/local_job.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <netinet/in.h>

#include "parallel/transports/processes/job.h"
#include "parallel/transports/processes/tcp/tcp_socket.h"
#include "parallel/transports/processes/tcp/tcp_wire.h"

namespace heddle::test {

struct LocalWires::Shared {
  explicit Shared(int processes) : inboxes(static_cast<std::size_t>(processes)) {}

  struct Frame {
    int from;
    std::vector<std::byte> content;
    bool more_follow;
  };
  /// One side of a transfer that waits for the other.
  struct Half {
    void* data;
    std::int64_t bytes;
    bool is_done = false;
  };
  using Halves = std::map<std::tuple<int, int, int>, std::deque<std::shared_ptr<Half>>>;  // from, to, tag

  std::mutex mutex;
  std::vector<std::deque<Frame>> inboxes;
  Halves sends;
  Halves receives;
};

namespace {

using Shared = LocalWires::Shared;

class LocalTransfer : public WireTransfer {
 public:
  LocalTransfer(Shared& shared, std::shared_ptr<Shared::Half> half) : shared_(shared), half_(std::move(half)) {}
  bool is_done() override {
    const std::lock_guard lock(shared_.mutex);
    return half_->is_done;
  }
  void cancel() override {}

 private:
  Shared& shared_;
  std::shared_ptr<Shared::Half> half_;
};

class LocalWire : public Wire {
 public:
  LocalWire(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.inboxes.size()); }
  int local_size() const override { return size(); }
  int local_rank() const override { return rank_; }
  std::string name() const override { return "threads as processes"; }

  void post(int to, std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow) override {
    Shared::Frame frame{rank_, {head.begin(), head.end()}, more_follow};
    frame.content.insert(frame.content.end(), content.begin(), content.end());
    const std::lock_guard lock(shared_.mutex);
    shared_.inboxes[static_cast<std::size_t>(to)].push_back(std::move(frame));
  }
  std::optional<Frame> next_frame() override {
    const std::lock_guard lock(shared_.mutex);
    auto& inbox = shared_.inboxes[static_cast<std::size_t>(rank_)];
    if (inbox.empty()) return {};
    read_ = std::move(inbox.front());
    inbox.pop_front();
    return Frame{read_.from, read_.content, read_.more_follow};
  }

  bool flush(std::chrono::milliseconds /*timeout*/) noexcept override { return true; }

  std::unique_ptr<WireTransfer> send(int to, int tag, const void* data, std::int64_t bytes) override {
    return begin(shared_.sends, shared_.receives, {rank_, to, tag}, const_cast<void*>(data), bytes);
  }
  std::unique_ptr<WireTransfer> receive(int from, int tag, void* data, std::int64_t bytes) override {
    return begin(shared_.receives, shared_.sends, {from, rank_, tag}, data, bytes);
  }

  void leave() override {}
  void abort(int /*code*/) override { std::abort(); }

 private:
  std::unique_ptr<WireTransfer> begin(Shared::Halves& mine, Shared::Halves& others,
                                      const std::tuple<int, int, int>& key, void* data, std::int64_t bytes) {
    const std::lock_guard lock(shared_.mutex);
    auto half = std::make_shared<Shared::Half>(data, bytes);
    auto& waiting = others[key];
    if (waiting.empty()) {
      mine[key].push_back(half);
    } else {
      Shared::Half& other = *waiting.front();
      const bool is_send = &mine == &shared_.sends;
      std::memcpy(is_send ? other.data : data, is_send ? data : other.data, static_cast<std::size_t>(bytes));
      other.is_done = half->is_done = true;
      waiting.pop_front();
    }
    return std::make_unique<LocalTransfer>(shared_, std::move(half));
  }

  Shared& shared_;
  int rank_;
  Shared::Frame read_{};
};

std::string text_of(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

LocalWires::LocalWires(int processes) : shared_(std::make_unique<Shared>(processes)) {}
LocalWires::~LocalWires() = default;

std::unique_ptr<Wire> LocalWires::wire(int process) {
  return std::make_unique<LocalWire>(*shared_, process);
}

std::uint16_t free_port() {
  return ntohs(TcpSocket::listen(0).local_address().port);
}

void in_processes(int processes, const std::function<void(Job& own)>& body, Connection connection) {
  LocalWires wires(processes);
  const JobSecret secret("of this local job");
  const RendezvousAddress point{"127.0.0.1", connection == Connection::sockets ? free_port() : std::uint16_t{0}};
  std::vector<std::exception_ptr> exceptions(static_cast<std::size_t>(processes));
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < processes; ++p)
      threads.emplace_back([&, p] {
        try {
          Job own(connection == Connection::memory ? wires.wire(p) : join_by_tcp({p, processes}, point, {}, secret));
          try {
            body(own);
          } catch (...) {
            exceptions[static_cast<std::size_t>(p)] = std::current_exception();
          }
          if (connection == Connection::sockets) own.leave(0);
        } catch (...) {
          exceptions[static_cast<std::size_t>(p)] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& exception : exceptions) CHECK(text_of(exception) == text_of(exceptions[0]));
  if (exceptions[0]) std::rethrow_exception(exceptions[0]);
}

void run_in_processes(const WorldOptions& options, const std::function<void(Rank&)>& body, Connection connection) {
  in_processes(
      options.mesh.size(),
      [&](Job& own) {
        WorldOptions mine = options;
        mine.job = &own;
        run_ranks(mine, body);
      },
      connection);
}

}  // namespace heddle::test
