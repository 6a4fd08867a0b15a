// One process's connection with another: letters, and between them elements in frames, so that a letter never waits for
// a tensor. Nothing here waits. Internal to the wire of sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parallel/tcp/tcp_socket.h"

namespace heddle {

class TcpConnection {
 public:
  /// Elements under way; done when they are in the system's hands, or have come from there.
  struct Elements {
    std::byte* data;
    std::int64_t left;
    int tag;
    bool is_done;
  };
  struct Sheet {
    std::vector<std::byte> content;
    bool more_follow;
  };

  explicit TcpConnection(TcpSocket socket) : socket_(std::move(socket)) {}

  void post(std::span<const std::byte> words, std::span<const std::byte> content, bool more_follow);
  void send(std::shared_ptr<Elements> elements) { outgoing_.push_back(std::move(elements)); }
  void receive(std::shared_ptr<Elements> elements) { incoming_[elements->tag] = std::move(elements); }
  /// What has come, oldest first.
  std::optional<Sheet> next_sheet();
  /// Writes and reads what can be.
  void progress();
  bool is_idle() const { return letters_.empty() && outgoing_.empty() && !frame_.is_begun; }
  /// The other side has closed, or died.
  bool is_gone() const { return is_gone_; }
  void close() { socket_.close(); }

 private:
  enum class Kind : std::uint32_t { last_sheet, sheet, elements };
  struct Header {
    Kind kind{};
    std::int32_t tag = 0;
    std::int64_t bytes = 0;
  };
  /// What is being written.
  struct Frame {
    bool is_begun = false;
    Header header;
    std::vector<std::byte> letter;
    std::shared_ptr<Elements> elements;
    std::size_t at = 0;  // of the header and what follows
  };

  bool begin_frame();
  void end_frame();
  bool write_some();
  bool read_some();
  void end_of_read();

  TcpSocket socket_;
  std::deque<Frame> letters_;
  std::deque<std::shared_ptr<Elements>> outgoing_;
  Frame frame_;
  std::map<int, std::shared_ptr<Elements>> incoming_;
  Header header_;
  std::size_t read_ = 0;  // of the header and what follows
  std::vector<std::byte> sheet_;
  std::shared_ptr<Elements> elements_;
  std::deque<Sheet> sheets_;
  bool is_gone_ = false;
};

}  // namespace heddle
