// The connection of one process with another. It carries control messages and elements in frames, so that a message
// never waits for a tensor. Everything that arrives is checked before it is used. Nothing here waits. Internal to the
// wire of sockets.
#pragma once

#include <algorithm>
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
  void send(std::shared_ptr<Elements> elements) { sends_.push_back(std::move(elements)); }
  void receive(std::shared_ptr<Elements> elements) { receives_[elements->tag] = std::move(elements); }
  /// Cancels a receive, whose memory may then be freed: what still arrives for it is read and dropped.
  static void cancel(Elements& elements) { elements.data = nullptr; }
  /// The frames of messages that have arrived, oldest first.
  std::optional<MessageFrame> next_frame();
  /// `write` writes what can be written; `progress` also reads what can be read.
  void write();
  void progress();
  /// Whether messages are still to be written.
  bool has_messages() const { return can_write_ && (!messages_.empty() || (writing_ && !writing_->elements)); }
  /// Ends writing, once everything is written. The peer then sees the end of the stream.
  void end_writing() { ends_writing_ = true; }
  bool is_open() const { return socket_.is_open(); }
  /// Nothing more will arrive: the peer has closed the connection, died, or sent invalid bytes. What arrived before
  /// that has been read.
  bool is_gone() const { return !why_gone_.empty(); }
  bool is_silent() const { return is_open() && socket_.is_peer_silent(); }
  /// `its process has ended`.
  const std::string& why_gone() const { return why_gone_; }
  void close() { socket_.close(); }

 private:
  /// A frame that is being written or read: the header, and then the content, which is part of a message or elements.
  struct Frame {
    Header header;
    std::vector<std::byte> message{};
    std::shared_ptr<Elements> elements{};
    std::size_t moved = 0;  // bytes of the header and the content so far

    std::size_t header_left() const { return sizeof(Header) - std::min(moved, sizeof(Header)); }
    /// The bytes of the content that have moved, and those that are left. The latter are known with the whole header.
    std::size_t content_moved() const { return moved - std::min(moved, sizeof(Header)); }
    std::size_t content_left() const { return static_cast<std::size_t>(header.bytes) - content_moved(); }
    bool is_complete() const { return header_left() == 0 && content_left() == 0; }
  };

  bool begin_write();
  void end_write();
  bool write_some();
  std::span<std::byte> next_read();
  bool read_some();
  bool begin_content();
  void end_read();
  bool reject(std::string_view what);
  void stop_writing(int error);

  TcpSocket socket_;
  std::deque<Frame> messages_;                   // to be written
  std::deque<std::shared_ptr<Elements>> sends_;  // requested by the peer
  std::optional<Frame> writing_;
  std::map<int, std::shared_ptr<Elements>> receives_;  // by tag
  Frame reading_;
  std::vector<std::byte> dropped_;  // what arrives for a receive that was cancelled
  std::deque<MessageFrame> arrived_;
  bool can_write_ = true;
  bool ends_writing_ = false;
  int error_ = 0;  // the first
  std::string why_gone_;
};

}  // namespace heddle
