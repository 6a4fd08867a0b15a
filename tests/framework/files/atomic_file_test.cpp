#include "framework/files/atomic_file.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/error.h"
#include "framework/scalars/random.h"
#include "tests/support/files/file_size_limit.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

TEST_CASE("what an atomic file is given for an earlier place replaces only that, and commits with the rest") {
  const Scratch folder;
  AtomicFile file(folder / "a");
  file.write("0123456789");
  const std::string_view text = "ab";
  file.write_at(3, std::as_bytes(std::span(text)));
  file.write("end");
  file.finish();
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
  file.commit();
  CHECK(read_file(folder / "a", 100) == "012ab56789end");
  CHECK(folder.files() == 1);
}

TEST_CASE("a file that is written past the cache has the bytes of one that is not, wherever its writes begin and end") {
  const Scratch folder;
  RandomStream draws({7}, Purpose::test, 0, 0);
  for (const std::size_t size : {std::size_t{100}, std::size_t{2} << 20, (std::size_t{4} << 20) + 5}) {
    std::string content(size, '\0');
    for (char& c : content) c = static_cast<char>(draws.next_u32());
    AtomicFile file(folder / "a", DiskCache::bypassed);
    for (std::size_t begin = 0; begin < size;) {
      const std::size_t count = std::min<std::size_t>(size - begin, draws.below(3'000'000) + 1);
      file.write(std::string_view(content).substr(begin, count));
      begin += count;
    }
    const std::string_view text = "ab";
    file.write_at(size / 2, std::as_bytes(std::span(text)));
    content.replace(size / 2, text.size(), text);
    file.write("end");
    file.commit();
    CAPTURE(size);
    CHECK((read_file(folder / "a", content.size() + 3) == content + "end"));
  }
}

TEST_CASE("pages of memory are written past the cache behind whole pages, and behind other bytes, and before both") {
  const Scratch folder;
  constexpr std::size_t page = 4096;
  constexpr std::size_t size = (std::size_t{5} << 20) + 5;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(page, size / page * page + page)), std::free);
  RandomStream draws({8}, Purpose::test, 0, 0);
  for (std::size_t i = 0; i < size; ++i) memory.get()[i] = static_cast<char>(draws.next_u32());
  const std::string_view pages(memory.get(), size);
  for (const std::size_t before : {std::size_t{0}, std::size_t{100}, page, 2 * page}) {
    const std::string head(before, 'h');
    AtomicFile file(folder / "a", DiskCache::bypassed);
    file.write(head);
    file.write(pages);
    file.write(pages.substr(0, size - 5));
    file.write("end");
    file.commit();
    CAPTURE(before);
    CHECK((read_file(folder / "a", 2 * size + before) ==
           head + std::string(pages) + std::string(pages.substr(0, size - 5)) + "end"));
  }
}

TEST_CASE("pages are written past the cache, and what is no page is written so or not at all") {
  const Scratch folder;
  constexpr std::size_t page = 4096;
  alignas(page) static std::array<std::byte, 3 * page> memory{};
  memory.fill(std::byte{7});
  const int probe = ::open((folder / "probe").c_str(), O_WRONLY | O_CREAT | O_DIRECT, 0666);
  const bool can_bypass = probe >= 0;
  FileDescriptor closes_probe(probe, folder / "probe");
  FileDescriptor file = FileDescriptor::open_for_appending(folder / "a");
  const int flags = ::fcntl(file.get(), F_GETFL);
  CHECK(file.write_past_cache(std::span(memory).first(2 * page)) == can_bypass);
  CHECK(file.size() == (can_bypass ? 2 * page : 0));
  const std::uint64_t before = file.size();
  const bool is_written = file.write_past_cache(std::span(memory).subspan(1, page + 1));
  CHECK(file.size() == before + (is_written ? page + 1 : 0));
  CHECK(::fcntl(file.get(), F_GETFL) == flags);
}

TEST_CASE("a disk that is full at some byte is an error past the cache, too") {
  const Scratch folder;
  for (const rlim_t room : {rlim_t{0}, rlim_t{5000}, rlim_t{3} << 20}) {
    CAPTURE(room);
    const test::FileSizeLimit limit(room);
    AtomicFile file(folder / "a", DiskCache::bypassed);
    CHECK(message_of<DiskError>([&] { file.write(std::string(std::size_t{5} << 20, 'x')); }) ==
          (folder / "a").string() + ": cannot be written: File too large");
  }
  CHECK(folder.files() == 0);
}

TEST_CASE("a process that is killed while it writes an atomic file leaves nothing of it") {
  const Scratch folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    AtomicFile file(folder / "a");
    file.write(std::string(std::size_t{1} << 20, 'x'));
    file.finish();
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(folder.files() == 0);
}

TEST_CASE("a write that fails names the target, and leaves nothing") {
  const Scratch folder;
  std::string error;
  {
    const test::FileSizeLimit limit(4096);
    error = message_of<InputError>([&] { write_file_atomically(folder / "a", std::string(8192, 'x')); });
  }
  CHECK(error == (folder / "a").string() + ": cannot be written: File too large");
  CHECK(folder.files() == 0);
}

}  // namespace heddle::test
