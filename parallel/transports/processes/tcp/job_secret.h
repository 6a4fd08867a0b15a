// The secret of a job, by which its processes recognise each other, and the proofs that a process knows it. Internal to
// the wire of sockets.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace heddle {

class JobSecret {
 public:
  using Nonce = std::array<std::byte, 32>;
  using Proof = std::array<std::byte, 32>;

  /// No secret: every program can compute the proofs.
  JobSecret() = default;
  explicit JobSecret(std::string text) : text_(std::move(text)) {}
  /// HEDDLE_JOB_SECRET; no secret if it is empty or not set.
  static JobSecret of_environment();

  bool is_set() const { return !text_.empty(); }
  /// The HMAC-SHA256 of the statement (RFC 2104), with the secret as its key.
  Proof prove(std::span<const std::byte> statement) const;
  /// Random bytes of the system, which never come twice.
  static Nonce draw_nonce();

 private:
  std::string text_;
};

/// Takes the same time whatever differs.
bool are_equal(const JobSecret::Proof& a, const JobSecret::Proof& b);

}  // namespace heddle
