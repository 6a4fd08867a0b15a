// The host memory of one rank: a caching heap within one large reservation of addresses. Freed memory is kept for the
// next step, because the first touch of a page costs five times the later ones; what is kept is bounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace heddle::cpu {

inline constexpr std::int64_t huge_page = std::int64_t{2} << 20;

/// Best fit by size, lowest address first, with splitting and coalescing; small requests come from lists by size.
/// Memory kept beyond the largest demand so far stays under 4 % of it + 64 MiB: past that, free pages go back to the
/// system. Under the address and thread sanitizers every request goes to `operator new`, which they watch. Thread-safe.
class Allocator {
 public:
  Allocator();
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// 64-byte aligned, from 2 MiB on page-aligned; null for 0 bytes. OutOfMemory if the system has no more.
  void* allocate(std::int64_t bytes);
  /// `bytes` as asked for.
  void deallocate(void* address, std::int64_t bytes);
  /// Bytes that may be resident: in use or kept.
  std::int64_t reserved_bytes() const;

 private:
  struct Block {
    std::int64_t bytes = 0;
    std::int64_t resident = 0;  // for a free block: at most this many of its bytes have pages
    bool is_free = false;
  };
  using Blocks = std::map<std::byte*, Block>;

  void reserve_addresses();
  std::byte* allocate_small(std::int64_t size_class);
  std::byte* allocate_block(std::int64_t bytes);
  /// Frees the block that begins at an address, or in the page before it.
  void free_block(std::byte* address);
  Blocks::iterator extend(std::int64_t bytes);
  void mark_free(Blocks::iterator block);
  void unmark_free(Blocks::iterator block);
  void give_back_pages(std::int64_t needed);

  mutable std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::int64_t capacity_ = 0;
  std::int64_t committed_ = 0;  // accessible addresses from base_
  std::int64_t top_ = 0;        // end of the last block
  std::int64_t live_ = 0;
  std::int64_t max_live_ = 0;
  std::int64_t resident_ = 0;
  Blocks blocks_;
  std::set<std::pair<std::int64_t, std::byte*>> free_;
  std::array<std::vector<std::byte*>, 65> small_;
};

}  // namespace heddle::cpu
