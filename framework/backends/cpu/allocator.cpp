#include "framework/backends/cpu/allocator.h"

#include <algorithm>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "framework/error.h"
#include "framework/tensors/memory.h"

namespace heddle::cpu {

namespace {

constexpr std::int64_t alignment = 64;
constexpr std::int64_t page = 4096;
constexpr std::int64_t max_small = 4096;
constexpr std::int64_t slab = std::int64_t{64} << 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool uses_operator_new = true;
#else
constexpr bool uses_operator_new = false;
#endif

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// What a request takes. Whole pages from 64 KiB on, so that slightly different sizes can take each other's place.
std::int64_t rounded(std::int64_t bytes) {
  return round_up(bytes, bytes < slab ? alignment : page);
}

[[noreturn]] void out_of_memory(std::int64_t bytes, std::int64_t live) {
  fail<OutOfMemory>("cpu: the system has no memory for {} more; this rank uses {}", format_bytes(bytes),
                    format_bytes(live));
}

}  // namespace

Allocator::Allocator() {
  if (!uses_operator_new) reserve_addresses();
}

Allocator::~Allocator() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(capacity_));
}

void Allocator::reserve_addresses() {
  const std::int64_t physical = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (capacity_ = round_up(2 * physical, huge_page); capacity_ >= huge_page; capacity_ = capacity_ / 2) {
    capacity_ = round_up(capacity_, huge_page);
    void* const address = mmap(nullptr, static_cast<std::size_t>(capacity_), PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) continue;
    base_ = static_cast<std::byte*>(address);
    // Large pages make first touch several times cheaper; where the system has none this is refused and harmless.
    madvise(base_, static_cast<std::size_t>(capacity_), MADV_HUGEPAGE);
    return;
  }
  capacity_ = 0;
  fail<OutOfMemory>("cpu: the system has no addresses for this rank's memory");
}

void* Allocator::allocate(std::int64_t bytes) {
  if (bytes <= 0) return nullptr;
  const std::lock_guard lock(mutex_);
  if (uses_operator_new) {
    void* const address = ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{alignment}, std::nothrow);
    if (address == nullptr) out_of_memory(bytes, live_);
    live_ += bytes;
    resident_ = live_;
    return address;
  }
  if (bytes <= max_small) return allocate_small((bytes + alignment - 1) / alignment);
  if (bytes < huge_page) return allocate_block(rounded(bytes));
  std::byte* const begin = allocate_block(rounded(bytes) + page);
  return begin + (page - (begin - base_) % page) % page;
}

void Allocator::deallocate(void* address, std::int64_t bytes) {
  if (address == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (uses_operator_new) {
    ::operator delete (address, std::align_val_t{alignment});
    live_ -= bytes;
    resident_ = live_;
  } else if (bytes <= max_small) {
    small_[static_cast<std::size_t>((bytes + alignment - 1) / alignment)].push_back(static_cast<std::byte*>(address));
  } else {
    free_block(static_cast<std::byte*>(address));
  }
}

std::int64_t Allocator::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return resident_;
}

std::byte* Allocator::allocate_small(std::int64_t size_class) {
  std::vector<std::byte*>& list = small_[static_cast<std::size_t>(size_class)];
  if (list.empty()) {
    const std::int64_t bytes = size_class * alignment;
    std::byte* const begin = allocate_block(slab);
    for (std::int64_t offset = slab / bytes * bytes; offset > 0; offset -= bytes)
      list.push_back(begin + offset - bytes);
  }
  std::byte* const address = list.back();
  list.pop_back();
  return address;
}

std::byte* Allocator::allocate_block(std::int64_t bytes) {
  const auto fit = free_.lower_bound({bytes, nullptr});
  const auto block = fit != free_.end() ? blocks_.find(fit->second) : extend(bytes);
  std::byte* const address = block->first;
  const std::int64_t rest = block->second.bytes - bytes;
  const std::int64_t had = block->second.resident;
  if (block->second.is_free) unmark_free(block);
  resident_ -= had;
  block->second = {bytes, 0, false};
  if (rest > 0) {
    // Which of the block's bytes have pages is not known: for the rest, as many as can be.
    const auto next = blocks_.emplace_hint(std::next(block), address + bytes, Block{rest, std::min(rest, had), true});
    resident_ += next->second.resident;
    mark_free(next);
  }
  live_ += bytes;
  resident_ += bytes;
  max_live_ = std::max(max_live_, live_);
  const std::int64_t bound = max_live_ + max_live_ / 25 + (std::int64_t{64} << 20);
  if (resident_ > bound) give_back_pages(resident_ - bound);
  return address;
}

void Allocator::free_block(std::byte* address) {
  auto block = blocks_.upper_bound(address);
  const bool lies_in_one = block != blocks_.begin() && address - (--block)->first < page;
  if (!lies_in_one || block->second.is_free) fail("cpu: freed an address that is not in use");
  live_ -= block->second.bytes;
  block->second.resident = block->second.bytes;
  const auto absorb_next = [this](Blocks::iterator first, Blocks::iterator second) {
    first->second.bytes += second->second.bytes;
    first->second.resident += second->second.resident;
    blocks_.erase(second);
  };
  if (const auto next = std::next(block); next != blocks_.end() && next->second.is_free) {
    unmark_free(next);
    absorb_next(block, next);
  }
  if (block != blocks_.begin() && std::prev(block)->second.is_free) {
    const auto previous = std::prev(block);
    unmark_free(previous);
    absorb_next(previous, block);
    block = previous;
  }
  mark_free(block);
}

/// A block of at least `bytes` at the top; takes in the last block if that is free. Not marked free if it is new.
Allocator::Blocks::iterator Allocator::extend(std::int64_t bytes) {
  const bool joins = !blocks_.empty() && std::prev(blocks_.end())->second.is_free;
  const std::int64_t more = bytes - (joins ? std::prev(blocks_.end())->second.bytes : 0);
  if (more > capacity_ - top_) out_of_memory(bytes, live_);
  if (top_ + more > committed_) {
    const std::int64_t wanted = std::min(round_up(top_ + more, 8 * huge_page), capacity_);
    if (mprotect(base_ + committed_, static_cast<std::size_t>(wanted - committed_), PROT_READ | PROT_WRITE) != 0)
      out_of_memory(bytes, live_);
    committed_ = wanted;
  }
  top_ += more;
  if (!joins) return blocks_.emplace_hint(blocks_.end(), base_ + top_ - bytes, Block{bytes, 0, false});
  const auto last = std::prev(blocks_.end());
  unmark_free(last);
  last->second.bytes = bytes;
  mark_free(last);
  return last;
}

void Allocator::mark_free(Blocks::iterator block) {
  block->second.is_free = true;
  free_.insert({block->second.bytes, block->first});
}

void Allocator::unmark_free(Blocks::iterator block) {
  block->second.is_free = false;
  free_.erase({block->second.bytes, block->first});
}

/// Largest free blocks first: they cost the fewest calls, and the smaller ones are wanted again soonest.
void Allocator::give_back_pages(std::int64_t needed) {
  for (auto entry = free_.rbegin(); entry != free_.rend() && needed > 0 && entry->first >= huge_page; ++entry) {
    Block& block = blocks_.find(entry->second)->second;
    if (block.resident <= 2 * page) continue;
    const std::int64_t offset = entry->second - base_;
    const std::int64_t begin = round_up(offset, page);
    const std::int64_t end = (offset + block.bytes) / page * page;
    madvise(base_ + begin, static_cast<std::size_t>(end - begin), MADV_DONTNEED);
    const std::int64_t kept = std::min(block.resident, block.bytes - (end - begin));
    resident_ -= block.resident - kept;
    needed -= block.resident - kept;
    block.resident = kept;
  }
}

}  // namespace heddle::cpu
