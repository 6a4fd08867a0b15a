#include "parallel/transports/processes/tcp/job_secret.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "framework/error.h"

namespace heddle {

JobSecret JobSecret::of_environment() {
  const char* const text = std::getenv("HEDDLE_JOB_SECRET");
  return text != nullptr ? JobSecret(text) : JobSecret();
}

JobSecret::Proof JobSecret::prove(std::span<const std::byte> statement) const {
  Proof proof{};
  unsigned size = 0;
  if (::HMAC(::EVP_sha256(), text_.data(), static_cast<int>(text_.size()),
             reinterpret_cast<const unsigned char*>(statement.data()), statement.size(),
             reinterpret_cast<unsigned char*>(proof.data()), &size) == nullptr ||
      size != proof.size())
    fail("libcrypto cannot compute an HMAC-SHA256");
  return proof;
}

JobSecret::Nonce JobSecret::draw_nonce() {
  Nonce nonce{};
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    fail("getrandom: {}", std::strerror(errno));
  return nonce;
}

bool are_equal(const JobSecret::Proof& a, const JobSecret::Proof& b) {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace heddle
