// One process's connection with another: letters, and between them elements in frames, so that a letter never waits for
// a tensor. What comes is checked before anything is done with it. Nothing here waits. Internal to the wire of sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/transports/processes/tcp/tcp_socket.h"

namespace heddle {

class TcpConnection {
 public:
  /// Elements under way; done when they are in the system's hands, or have come from there.
  struct Elements {
    std::byte* data;  // null: of a receiver who does not want them any more
    std::int64_t left;
    int tag;
    bool is_done;
  };
  struct MessageFrame {
    std::vector<std::byte> content;
    bool more_follow;
  };

  /// What is written before each frame. A frame of letters has at most `Wire::max_frame` bytes, one of elements those
  /// that were asked for, of which at most `max_elements` go before letters that were posted meanwhile.
  enum class Kind : std::uint32_t { last_message_frame, message_frame, elements };
  struct Header {
    Kind kind{};
    std::int32_t tag = 0;
    std::int64_t bytes = 0;
  };
  static constexpr std::int64_t max_elements = std::int64_t{256} << 10;

  explicit TcpConnection(TcpSocket socket) : socket_(std::move(socket)) {}

  void post(std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow);
  void send(std::shared_ptr<Elements> elements) { outgoing_.push_back(std::move(elements)); }
  void receive(std::shared_ptr<Elements> elements) { incoming_[elements->tag] = std::move(elements); }
  /// The memory of a receive may go: what still comes for it is read, and dropped.
  static void forget(Elements& elements) { elements.data = nullptr; }
  /// What has come, oldest first.
  std::optional<MessageFrame> next_frame();
  /// Writes what can be, and reads what can be, too.
  void write();
  void progress();
  /// Whether letters are still to be written.
  bool has_messages() const { return can_write_ && (!messages_.empty() || (frame_.is_begun && !frame_.elements)); }
  /// Once all is written. The other side then sees the end, and this one the other's.
  void end_writing() { is_last_ = true; }
  bool is_open() const { return socket_.is_open(); }
  /// Nothing more will come: the other side has closed, died or said what cannot be. What came before that has been
  /// read.
  bool is_gone() const { return !why_gone_.empty(); }
  /// `its process is gone`.
  const std::string& why_gone() const { return why_gone_; }
  void close() { socket_.close(); }

 private:
  /// What is being written.
  struct Frame {
    bool is_begun = false;
    Header header;
    std::vector<std::byte> message;
    std::shared_ptr<Elements> elements;
    std::size_t at = 0;  // of the header and what follows
  };

  bool begin_frame();
  void end_frame();
  bool write_some();
  bool read_some();
  bool begin_read();
  void end_read();
  bool refuse(std::string_view what);
  void lose(int error);

  TcpSocket socket_;
  std::deque<Frame> messages_;
  std::deque<std::shared_ptr<Elements>> outgoing_;
  Frame frame_;
  std::map<int, std::shared_ptr<Elements>> incoming_;
  Header header_;
  std::size_t read_ = 0;  // of the header and what follows
  std::vector<std::byte> incoming_frame_;
  std::vector<std::byte> dropped_;
  std::shared_ptr<Elements> elements_;
  std::deque<MessageFrame> message_frames_;
  bool can_write_ = true;
  bool is_last_ = false;
  int error_ = 0;  // the first
  std::string why_gone_;
};

}  // namespace heddle
