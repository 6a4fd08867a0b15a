#include "parallel/transports/processes/tcp/tcp_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "parallel/transports/processes/wire.h"

namespace heddle {

void TcpConnection::post(std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow) {
  if (!can_write_) return;
  Frame& frame = messages_.emplace_back();
  frame.header.kind = more_follow ? Kind::message_frame : Kind::last_message_frame;
  frame.header.bytes = static_cast<std::int64_t>(head.size() + content.size());
  frame.message.assign(head.begin(), head.end());
  frame.message.insert(frame.message.end(), content.begin(), content.end());
  write();
}

std::optional<TcpConnection::MessageFrame> TcpConnection::next_frame() {
  if (arrived_.empty()) return {};
  MessageFrame frame = std::move(arrived_.front());
  arrived_.pop_front();
  return frame;
}

void TcpConnection::write() {
  while (write_some()) {
  }
}

void TcpConnection::progress() {
  write();
  if (ends_writing_ && can_write_ && is_open() && !writing_) {
    can_write_ = false;
    socket_.end_writing();
  }
  while (read_some()) {
  }
}

// ---- writing -------------------------------------------------------------------------------------------------------

/// Begins the next frame, unless one is begun already; false if there is none.
bool TcpConnection::begin_write() {
  if (writing_) return true;
  if (!messages_.empty()) {
    writing_ = std::move(messages_.front());
    messages_.pop_front();
  } else if (!sends_.empty()) {
    const std::shared_ptr<Elements>& elements = sends_.front();
    writing_ =
        Frame{.header = {Kind::elements, elements->tag, std::min(elements->left, max_elements)}, .elements = elements};
  }
  return writing_.has_value();
}

void TcpConnection::end_write() {
  if (const std::shared_ptr<Elements> elements = std::move(writing_->elements)) {
    elements->data += writing_->header.bytes;
    elements->left -= writing_->header.bytes;
    if (elements->left == 0) {
      elements->is_done = true;
      sends_.pop_front();
    }
  }
  writing_.reset();
}

/// False when nothing more can be written now.
bool TcpConnection::write_some() {
  if (!can_write_ || !socket_.is_open() || !begin_write()) return false;
  const std::span<const std::byte> header =
      std::as_bytes(std::span(&writing_->header, 1)).last(writing_->header_left());
  const std::byte* const content = writing_->elements ? writing_->elements->data : writing_->message.data();
  std::array<iovec, 2> parts{};
  parts[0] = {const_cast<std::byte*>(header.data()), header.size()};
  parts[1] = {const_cast<std::byte*>(content) + writing_->content_moved(), writing_->content_left()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t count = ::sendmsg(socket_.descriptor(), &message, MSG_NOSIGNAL);
  if (count < 0) {
    // The data that the peer had sent before are still to be read: they may give the reason why it ended.
    if (!is_temporary(errno)) stop_writing(errno);
    return false;
  }
  writing_->moved += static_cast<std::size_t>(count);
  if (writing_->is_complete()) end_write();
  return true;
}

/// Nothing more can be written, and what is left to write is dropped.
void TcpConnection::stop_writing(int error) {
  if (can_write_) error_ = error;
  can_write_ = false;
  messages_.clear();
  sends_.clear();
  writing_.reset();
}

// ---- reading -------------------------------------------------------------------------------------------------------

/// Where the next bytes are to be read to: the rest of the header, or of the content.
std::span<std::byte> TcpConnection::next_read() {
  if (reading_.header_left() > 0)
    return std::as_writable_bytes(std::span(&reading_.header, 1)).last(reading_.header_left());
  const std::size_t left = reading_.content_left();
  if (!reading_.elements) return std::span(reading_.message).last(left);
  if (reading_.elements->data != nullptr) return {reading_.elements->data + reading_.content_moved(), left};
  dropped_.resize(left);
  return dropped_;
}

/// False when nothing more can be read now.
bool TcpConnection::read_some() {
  if (is_gone() || !socket_.is_open()) return false;
  const std::span<std::byte> bytes = next_read();
  const ssize_t count = ::recv(socket_.descriptor(), bytes.data(), bytes.size(), 0);
  if (count <= 0) {
    if (count < 0 && is_temporary(errno)) return false;
    stop_writing(count < 0 ? errno : 0);
    const bool is_closed = error_ == 0 || error_ == EPIPE || error_ == ECONNRESET;
    why_gone_ = is_closed ? "its process has ended" : fmt::format("it no longer responds: {}", std::strerror(error_));
    return false;
  }
  const bool had_header = reading_.header_left() == 0;
  reading_.moved += static_cast<std::size_t>(count);
  if (!had_header && reading_.header_left() == 0 && !begin_content()) return false;
  if (reading_.is_complete()) end_read();
  return true;
}

/// Checks the header, and prepares for the content that follows it; false if the header is invalid.
bool TcpConnection::begin_content() {
  const auto [kind, tag, bytes] = reading_.header;
  switch (kind) {
    case Kind::message_frame:
    case Kind::last_message_frame:
      if (bytes < 0 || bytes > static_cast<std::int64_t>(Wire::max_frame))
        return reject(fmt::format("part of a message, of {} bytes", bytes));
      reading_.message.resize(static_cast<std::size_t>(bytes));
      return true;
    case Kind::elements: {
      const auto found = receives_.find(tag);
      if (bytes <= 0 || bytes > max_elements || found == receives_.end() || found->second->left < bytes)
        return reject(fmt::format("{} bytes of elements, tag {}, which were not requested", bytes, tag));
      reading_.elements = found->second;
      return true;
    }
  }
  return reject(fmt::format("a frame of kind {}", static_cast<std::uint32_t>(kind)));
}

void TcpConnection::end_read() {
  const Header header = reading_.header;
  if (const std::shared_ptr<Elements> elements = reading_.elements) {
    if (elements->data != nullptr) elements->data += header.bytes;
    elements->left -= header.bytes;
    if (elements->left == 0) {
      elements->is_done = true;
      receives_.erase(header.tag);
    }
  } else {
    arrived_.push_back({std::move(reading_.message), header.kind == Kind::message_frame});
  }
  reading_ = {};
}

/// Reads nothing more from the peer, to which the reason can still be sent.
bool TcpConnection::reject(std::string_view what) {
  why_gone_ = fmt::format("it sent {}: all processes must run the same build of this program", what);
  // The memory of its elements may be freed from now on.
  sends_.clear();
  if (writing_ && writing_->elements) can_write_ = false;
  return false;
}

}  // namespace heddle
