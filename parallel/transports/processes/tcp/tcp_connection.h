// The connection of one process with another. It carries control messages and elements in frames, so that a message
// never waits for a tensor. Everything that arrives is checked before it is used. Nothing here waits. Internal to the
// wire of sockets.
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
  /// Elements under way; a send is done when the system has taken them all, a receive when all have arrived.
  struct Elements {
    std::byte* data;  // null: a receive that was cancelled
    std::int64_t left;
    int tag;
    bool is_done;
  };
  struct MessageFrame {
    std::vector<std::byte> content;
    bool more_follow;
  };

  /// The header of each frame. A frame of a message has at most `Wire::max_frame` bytes. Requested elements are split
  /// into frames of at most `max_elements` bytes, between which messages are sent that were posted meanwhile.
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
  /// The memory of a receive may be freed: what still arrives for it is read and dropped.
  static void forget(Elements& elements) { elements.data = nullptr; }
  /// The frames of messages that have arrived, oldest first.
  std::optional<MessageFrame> next_frame();
  /// `write` writes what can be written; `progress` also reads what can be read.
  void write();
  void progress();
  /// Whether messages are still to be written.
  bool has_messages() const { return can_write_ && (!messages_.empty() || (frame_.is_begun && !frame_.elements)); }
  /// Ends writing, once everything is written. The peer then sees the end of the stream.
  void end_writing() { is_last_ = true; }
  bool is_open() const { return socket_.is_open(); }
  /// Nothing more will arrive: the peer has closed the connection, died, or sent invalid bytes. What arrived before
  /// that has been read.
  bool is_gone() const { return !why_gone_.empty(); }
  bool is_silent() const { return is_open() && socket_.is_peer_silent(); }
  /// `its process has ended`.
  const std::string& why_gone() const { return why_gone_; }
  void close() { socket_.close(); }

 private:
  /// The frame that is being written.
  struct Frame {
    bool is_begun = false;
    Header header;
    std::vector<std::byte> message;
    std::shared_ptr<Elements> elements;
    std::size_t at = 0;  // bytes of the header and the content so far
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
  std::size_t read_ = 0;  // bytes of the header and the content so far
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
