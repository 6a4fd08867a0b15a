#include "framework/backends/cpu/allocator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace heddle::test {
namespace {

using cpu::Allocator;

struct Held {
  void* address;
  std::int64_t bytes;
  unsigned char mark;
};

Held take(Allocator& allocator, std::int64_t bytes, unsigned char mark) {
  const Held held{allocator.allocate(bytes), bytes, mark};
  std::memset(held.address, mark, static_cast<std::size_t>(bytes));
  return held;
}

bool is_intact(const Held& held) {
  const auto* const bytes = static_cast<const unsigned char*>(held.address);
  return bytes[0] == held.mark && bytes[held.bytes / 2] == held.mark && bytes[held.bytes - 1] == held.mark &&
         std::memcmp(bytes, bytes + 1, static_cast<std::size_t>(held.bytes - 1)) == 0;
}

/// Sizes as in a training step: many small ones, some of several megabytes.
std::int64_t draw_size(std::mt19937& random) {
  const double exponent = std::uniform_real_distribution(0.0, 22.5)(random);
  return static_cast<std::int64_t>(std::exp2(exponent));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("allocator: from 2 MiB on, memory begins on a page, and is reused") {
  Allocator allocator;
  const std::int64_t large = cpu::huge_page;
  const Held odd = take(allocator, 4096 + 64, 1);
  const Held first = take(allocator, large, 2);
  const Held second = take(allocator, large + 64, 3);
  for (const Held& held : {first, second}) CHECK(reinterpret_cast<std::uintptr_t>(held.address) % 4096 == 0);
  CHECK(is_intact(odd));
  CHECK(is_intact(first));
  allocator.deallocate(first.address, large);
  CHECK(allocator.allocate(large) == first.address);
}
#endif

TEST_CASE("allocator: random use keeps every block whole, aligned and apart") {
  Allocator allocator;
  std::mt19937 random(7);
  std::vector<Held> held;
  bool whole = true;
  bool aligned = true;
  for (int i = 0; i < 6000; ++i) {
    if (held.size() < 40 || random() % 2 == 0) {
      held.push_back(take(allocator, draw_size(random), static_cast<unsigned char>(random())));
      aligned &= reinterpret_cast<std::uintptr_t>(held.back().address) % 64 == 0;
    } else {
      std::swap(held[random() % held.size()], held.back());
      whole &= is_intact(held.back());
      allocator.deallocate(held.back().address, held.back().bytes);
      held.pop_back();
    }
  }
  for (const Held& block : held) {
    whole &= is_intact(block);
    allocator.deallocate(block.address, block.bytes);
  }
  CHECK(whole);
  CHECK(aligned);
}

TEST_CASE("allocator: what is kept stays near the largest demand") {
  Allocator allocator;
  std::mt19937 random(11);
  std::vector<Held> held;
  std::int64_t live = 0;
  std::int64_t largest = 0;
  bool within = true;
  // Grow and shrink with changing sizes: the worst that fragmentation can do.
  for (int round = 0; round < 30; ++round) {
    const std::int64_t scale = std::int64_t{1} << (10 + round % 11);
    for (int i = 0; i < 60; ++i) {
      const auto bytes = scale + static_cast<std::int64_t>(random() % static_cast<unsigned>(scale));
      held.push_back({allocator.allocate(bytes), bytes, 0});
      live += bytes;
      largest = std::max(largest, live);
      within &= allocator.reserved_bytes() >= live;
      within &= allocator.reserved_bytes() <= largest + largest / 20 + (std::int64_t{80} << 20);
    }
    std::shuffle(held.begin(), held.end(), random);
    while (held.size() > 20) {
      allocator.deallocate(held.back().address, held.back().bytes);
      live -= held.back().bytes;
      held.pop_back();
    }
  }
  for (const Held& block : held) allocator.deallocate(block.address, block.bytes);
  CHECK(within);
}

TEST_CASE("allocator: equal steps come to take nothing more from the system") {
  Allocator allocator;
  std::int64_t after_second = 0;
  for (int step = 0; step < 4; ++step) {
    std::mt19937 random(3);
    std::vector<Held> held;
    for (int i = 0; i < 300; ++i) held.push_back(take(allocator, draw_size(random), 1));
    if (step == 1) after_second = allocator.reserved_bytes();
    if (step > 1) CHECK(allocator.reserved_bytes() == after_second);
    for (const Held& block : held) allocator.deallocate(block.address, block.bytes);
  }
}

TEST_CASE("allocator: memory may be freed on another thread") {
  Allocator allocator;
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 3; ++seed)
    threads.emplace_back([&allocator, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 50; ++i) {
        const Held held = take(allocator, draw_size(random), static_cast<unsigned char>(seed));
        std::jthread([&allocator, held] {
          if (!is_intact(held)) std::abort();
          allocator.deallocate(held.address, held.bytes);
        });
      }
    });
  threads.clear();
  CHECK(allocator.allocate(0) == nullptr);
}

}  // namespace
}  // namespace heddle::test
