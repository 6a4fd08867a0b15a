#include "parallel/transports/processes/tcp/tcp_wire.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/transports/processes/tcp/regroup.h"
#include "parallel/transports/processes/tcp/rendezvous.h"
#include "parallel/transports/processes/tcp/tcp_connection.h"

namespace heddle {

namespace {

class TcpTransfer : public WireTransfer {
 public:
  TcpTransfer(TcpConnection& connection, std::shared_ptr<TcpConnection::Elements> elements, bool is_send)
      : connection_(connection), elements_(std::move(elements)), is_send_(is_send) {}
  bool is_done() override { return elements_->is_done || (is_send_ && connection_.is_gone()); }
  void cancel() override {
    if (!is_send_) TcpConnection::cancel(*elements_);
  }

 private:
  TcpConnection& connection_;
  std::shared_ptr<TcpConnection::Elements> elements_;
  bool is_send_;
};

class TcpWire : public Wire {
 public:
  TcpWire(const Launch& launch, const RendezvousAddress& address, RendezvousResult rendezvous, const JobSecret& secret)
      : launch_(launch),
        leader_host_(address.host),
        job_(rendezvous.job),
        secret_(secret),
        listening_(std::move(rendezvous.listening)),
        addresses_(std::move(rendezvous.addresses)),
        local_rank_(launch.local_rank.value_or(rendezvous.local_rank)),
        local_size_(rendezvous.local_size) {
    for (TcpSocket& socket : rendezvous.sockets) connections_.emplace_back(std::move(socket));
    is_loss_reported_.resize(connections_.size());
  }

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  std::string name() const override { return "sockets"; }

  void post(int to, std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow) override {
    connection(to).post(head, content, more_follow);
  }
  std::optional<Frame> next_frame() override {
    if (const std::optional<Frame> frame = first_frame()) return frame;
    for (TcpConnection& other : connections_) other.progress();
    return first_frame();
  }
  bool flush(std::chrono::milliseconds timeout) noexcept override {
    const auto deadline = TcpSocket::Clock::now() + timeout;
    for (;;) {
      for (TcpConnection& other : connections_) other.write();
      if (std::none_of(connections_.begin(), connections_.end(), std::mem_fn(&TcpConnection::has_messages)))
        return true;
      if (TcpSocket::Clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  std::optional<Loss> next_loss() override {
    for (int p = 0; p < size(); ++p) {
      if (is_loss_reported_[static_cast<std::size_t>(p)] || !connection(p).is_gone()) continue;
      is_loss_reported_[static_cast<std::size_t>(p)] = true;
      return Loss{p, connection(p).why_gone()};
    }
    return {};
  }
  bool is_silent(int process) const override { return connections_[static_cast<std::size_t>(process)].is_silent(); }

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

  std::optional<RankAssignment> regroup(const std::set<int>& lost, const RegroupOptions& options) override {
    if (!listening_.is_open()) return {};
    disconnect(std::chrono::seconds(1));
    return heddle::regroup({.launch = launch_,
                            .job = job_,
                            .leader_host = leader_host_,
                            .addresses = addresses_,
                            .lost = lost,
                            .options = options},
                           listening_, secret_);
  }
  void leave() override { disconnect(std::chrono::seconds(10)); }
  void abort(int /*code*/) override { disconnect(std::chrono::milliseconds(500)); }

 private:
  static std::shared_ptr<TcpConnection::Elements> make_elements(int tag, void* data, std::int64_t bytes) {
    return std::make_shared<TcpConnection::Elements>(
        TcpConnection::Elements{static_cast<std::byte*>(data), bytes, tag, bytes == 0});
  }
  /// The last messages are still to be written, and those of the peers to be read: a connection that closes earlier may
  /// lose both.
  void disconnect(std::chrono::milliseconds timeout) {
    const auto deadline = TcpSocket::Clock::now() + timeout;
    for (TcpConnection& other : connections_) other.end_writing();
    const auto is_over = [](const TcpConnection& other) { return !other.is_open() || other.is_gone(); };
    while (!std::all_of(connections_.begin(), connections_.end(), is_over) && TcpSocket::Clock::now() < deadline) {
      for (TcpConnection& other : connections_) other.progress();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    for (TcpConnection& other : connections_) other.close();
  }
  TcpConnection& connection(int p) { return connections_[static_cast<std::size_t>(p)]; }
  std::optional<Frame> first_frame() {
    for (int p = 0; p < size(); ++p)
      if (auto frame = connection(p).next_frame()) {
        read_ = std::move(*frame);
        return Frame{p, read_.content, read_.more_follow};
      }
    return {};
  }

  Launch launch_;
  std::string leader_host_;
  std::uint64_t job_;
  JobSecret secret_;
  TcpSocket listening_;
  std::vector<TcpAddress> addresses_;
  int local_rank_;
  int local_size_;
  std::vector<TcpConnection> connections_;  // this process's own has no socket
  std::vector<bool> is_loss_reported_;
  TcpConnection::MessageFrame read_;
};

}  // namespace

std::unique_ptr<Wire> join_by_tcp(const Launch& launch, const RendezvousAddress& address,
                                  const RendezvousTimeouts& timeouts, const JobSecret& secret) {
  return std::make_unique<TcpWire>(launch, address, rendezvous(launch, address, timeouts, secret), secret);
}

}  // namespace heddle
