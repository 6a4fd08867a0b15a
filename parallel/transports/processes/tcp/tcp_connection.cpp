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

namespace {

bool may_come_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

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
  if (message_frames_.empty()) return {};
  MessageFrame frame = std::move(message_frames_.front());
  message_frames_.pop_front();
  return frame;
}

void TcpConnection::write() {
  while (write_some()) {
  }
}

void TcpConnection::progress() {
  write();
  if (is_last_ && can_write_ && is_open() && !frame_.is_begun) {
    can_write_ = false;
    socket_.end_writing();
  }
  while (read_some()) {
  }
}

bool TcpConnection::begin_frame() {
  if (frame_.is_begun) return true;
  if (!messages_.empty()) {
    frame_ = std::move(messages_.front());
    messages_.pop_front();
  } else if (!outgoing_.empty()) {
    frame_ = {};
    frame_.elements = outgoing_.front();
    frame_.header = {Kind::elements, frame_.elements->tag, std::min(frame_.elements->left, max_elements)};
  } else {
    return false;
  }
  frame_.is_begun = true;
  return true;
}

void TcpConnection::end_frame() {
  if (const std::shared_ptr<Elements> elements = std::move(frame_.elements)) {
    elements->data += frame_.header.bytes;
    elements->left -= frame_.header.bytes;
    if (elements->left == 0) {
      elements->is_done = true;
      outgoing_.pop_front();
    }
  }
  frame_ = {};
}

/// False when nothing more can be written now.
bool TcpConnection::write_some() {
  if (!can_write_ || !socket_.is_open() || !begin_frame()) return false;
  const std::span<const std::byte> header = std::as_bytes(std::span(&frame_.header, 1));
  const std::byte* const content = frame_.elements ? frame_.elements->data : frame_.message.data();
  std::array<iovec, 2> parts{};
  const std::size_t header_left = frame_.at < header.size() ? header.size() - frame_.at : 0;
  const std::size_t written = frame_.at - (header.size() - header_left);
  const std::size_t left = static_cast<std::size_t>(frame_.header.bytes) - written;
  parts[0] = {const_cast<std::byte*>(header.data()) + header.size() - header_left, header_left};
  parts[1] = {const_cast<std::byte*>(content) + written, left};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t count = ::sendmsg(socket_.number(), &message, MSG_NOSIGNAL);
  if (count < 0) {
    // The data that the peer had sent before are still to be read: they may give the reason why it ended.
    if (!may_come_later(errno)) lose(errno);
    return false;
  }
  frame_.at += static_cast<std::size_t>(count);
  if (static_cast<std::size_t>(count) == header_left + left) end_frame();
  return true;
}

/// False when nothing more can be read now.
bool TcpConnection::read_some() {
  if (is_gone() || !socket_.is_open()) return false;
  std::byte* to = nullptr;
  std::size_t left = 0;
  if (read_ < sizeof(Header)) {
    to = reinterpret_cast<std::byte*>(&header_) + read_;
    left = sizeof(Header) - read_;
  } else {
    const std::size_t at = read_ - sizeof(Header);
    left = static_cast<std::size_t>(header_.bytes) - at;
    const bool is_dropped = elements_ && elements_->data == nullptr;
    if (is_dropped) dropped_.resize(left);
    to = is_dropped ? dropped_.data() : (elements_ ? elements_->data : incoming_frame_.data()) + at;
  }
  const ssize_t count = ::recv(socket_.number(), to, left, 0);
  if (count <= 0) {
    if (count < 0 && may_come_later(errno)) return false;
    lose(count < 0 ? errno : 0);
    const bool is_closed = error_ == 0 || error_ == EPIPE || error_ == ECONNRESET;
    why_gone_ = is_closed ? "its process has ended" : fmt::format("it no longer responds: {}", std::strerror(error_));
    return false;
  }
  const bool had_header = read_ >= sizeof(Header);
  read_ += static_cast<std::size_t>(count);
  if (!had_header && read_ == sizeof(Header) && !begin_read()) return false;
  if (read_ >= sizeof(Header) && read_ == sizeof(Header) + static_cast<std::size_t>(header_.bytes)) end_read();
  return true;
}

/// Begins to read what follows the header; false if the header is invalid.
bool TcpConnection::begin_read() {
  const std::int64_t bytes = header_.bytes;
  switch (header_.kind) {
    case Kind::message_frame:
    case Kind::last_message_frame:
      if (bytes < 0 || bytes > static_cast<std::int64_t>(Wire::max_frame))
        return refuse(fmt::format("part of a message, of {} bytes", bytes));
      incoming_frame_.resize(static_cast<std::size_t>(bytes));
      return true;
    case Kind::elements: {
      const auto found = incoming_.find(header_.tag);
      if (bytes <= 0 || bytes > max_elements || found == incoming_.end() || found->second->left < bytes)
        return refuse(fmt::format("{} bytes of elements, tag {}, which were not requested", bytes, header_.tag));
      elements_ = found->second;
      return true;
    }
  }
  return refuse(fmt::format("a frame of kind {}", static_cast<std::uint32_t>(header_.kind)));
}

void TcpConnection::end_read() {
  if (elements_) {
    if (elements_->data != nullptr) elements_->data += header_.bytes;
    elements_->left -= header_.bytes;
    if (elements_->left == 0) {
      elements_->is_done = true;
      incoming_.erase(header_.tag);
    }
    elements_ = nullptr;
  } else {
    message_frames_.push_back({std::move(incoming_frame_), header_.kind == Kind::message_frame});
    incoming_frame_ = {};
  }
  read_ = 0;
}

/// Reads nothing more from the peer, which can still be sent the reason.
bool TcpConnection::refuse(std::string_view what) {
  why_gone_ = fmt::format("it sent {}: all processes must run the same build of this program", what);
  // Their memory may be freed from now on.
  outgoing_.clear();
  if (frame_.elements) can_write_ = false;
  return false;
}

/// Nothing more can be written, and what is left to write is dropped.
void TcpConnection::lose(int error) {
  if (can_write_) error_ = error;
  can_write_ = false;
  messages_.clear();
  outgoing_.clear();
  frame_ = {};
}

}  // namespace heddle
