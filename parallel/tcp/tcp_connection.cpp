#include "parallel/tcp/tcp_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

#include "framework/error.h"

namespace heddle {

namespace {

// Of elements, before letters that came meanwhile go.
constexpr std::int64_t max_frame = std::int64_t{256} << 10;

bool may_come_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

void TcpConnection::post(std::span<const std::byte> words, std::span<const std::byte> content, bool more_follow) {
  Frame& frame = letters_.emplace_back();
  frame.header.kind = more_follow ? Kind::sheet : Kind::last_sheet;
  frame.header.bytes = static_cast<std::int64_t>(words.size() + content.size());
  frame.letter.assign(words.begin(), words.end());
  frame.letter.insert(frame.letter.end(), content.begin(), content.end());
  while (write_some()) {
  }
}

std::optional<TcpConnection::Sheet> TcpConnection::next_sheet() {
  if (sheets_.empty()) return {};
  Sheet sheet = std::move(sheets_.front());
  sheets_.pop_front();
  return sheet;
}

void TcpConnection::progress() {
  while (write_some()) {
  }
  while (read_some()) {
  }
}

bool TcpConnection::begin_frame() {
  if (frame_.is_begun) return true;
  if (!letters_.empty()) {
    frame_ = std::move(letters_.front());
    letters_.pop_front();
  } else if (!outgoing_.empty()) {
    frame_ = {};
    frame_.elements = outgoing_.front();
    frame_.header = {Kind::elements, frame_.elements->tag, std::min(frame_.elements->left, max_frame)};
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
  if (is_gone_ || !socket_.is_open() || !begin_frame()) return false;
  const std::span<const std::byte> header = std::as_bytes(std::span(&frame_.header, 1));
  const std::byte* const content = frame_.elements ? frame_.elements->data : frame_.letter.data();
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
    if (!may_come_later(errno)) is_gone_ = true;
    return false;
  }
  frame_.at += static_cast<std::size_t>(count);
  if (static_cast<std::size_t>(count) == header_left + left) end_frame();
  return true;
}

/// False when nothing more can be read now.
bool TcpConnection::read_some() {
  if (is_gone_ || !socket_.is_open()) return false;
  std::byte* to = nullptr;
  std::size_t left = 0;
  if (read_ < sizeof(Header)) {
    to = reinterpret_cast<std::byte*>(&header_) + read_;
    left = sizeof(Header) - read_;
  } else {
    const std::size_t at = read_ - sizeof(Header);
    to = (elements_ ? elements_->data : sheet_.data()) + at;
    left = static_cast<std::size_t>(header_.bytes) - at;
  }
  const ssize_t count = ::recv(socket_.number(), to, left, 0);
  if (count <= 0) {
    if (count == 0 || !may_come_later(errno)) is_gone_ = true;
    return false;
  }
  const bool had_header = read_ >= sizeof(Header);
  read_ += static_cast<std::size_t>(count);
  if (!had_header && read_ == sizeof(Header)) {
    if (header_.kind == Kind::elements) {
      const auto found = incoming_.find(header_.tag);
      if (found == incoming_.end() || found->second->left < header_.bytes)
        fail("elements that nobody asked for: all processes must run the same build of this program");
      elements_ = found->second;
    } else {
      sheet_.resize(static_cast<std::size_t>(header_.bytes));
    }
  }
  if (read_ >= sizeof(Header) && read_ == sizeof(Header) + static_cast<std::size_t>(header_.bytes)) end_of_read();
  return true;
}

void TcpConnection::end_of_read() {
  if (elements_) {
    elements_->data += header_.bytes;
    elements_->left -= header_.bytes;
    if (elements_->left == 0) {
      elements_->is_done = true;
      incoming_.erase(header_.tag);
    }
    elements_ = nullptr;
  } else {
    sheets_.push_back({std::move(sheet_), header_.kind == Kind::sheet});
    sheet_ = {};
  }
  read_ = 0;
}

}  // namespace heddle
