// Parts of tensors in the files of a checkpoint: every reader finds the same bits, and broken files are refused.
#include "experiments/training/checkpoints/checkpoint_files.h"

#include <cstring>
#include <fstream>

#include <doctest/doctest.h>

#include "framework/files/crc32c.h"
#include "tests/support/devices.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

/// A whole in parts: along some dimensions a grid of boxes, each of them, perhaps, in ranges of elements.
std::vector<ParameterPart> random_parts(RandomStream& draws, const Shape& whole) {
  std::vector<ParameterPart> parts{ParameterPart::all_of(whole)};
  const auto split = [&parts](std::int64_t count, const auto& cut) {
    std::vector<ParameterPart> cut_parts;
    for (const ParameterPart& part : parts)
      for (std::int64_t i = 0; i < count; ++i) {
        cut_parts.push_back(part);
        cut(cut_parts.back(), i);
      }
    parts = std::move(cut_parts);
  };
  for (std::size_t d = 0; d < static_cast<std::size_t>(whole.rank()); ++d) {
    const auto count = static_cast<std::int64_t>(1 + draws.below(3));
    split(count, [&](ParameterPart& part, std::int64_t i) { part.box[d] = shard(part.box[d].size, count, i); });
  }
  if (const auto count = static_cast<std::int64_t>(1 + draws.below(3)); count > 1)
    split(count, [&](ParameterPart& part, std::int64_t i) { part.elements = shard(part.shape().numel(), count, i); });
  return parts;
}

/// Element i of the whole is i.
StateTensor counted(Device& device, const std::string& name, const ParameterPart& part) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(part.held_shape().numel()));
  for_each_run(part, [&](const ElementRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) values[static_cast<std::size_t>(run.held + i)] = run.whole + i;
  });
  return {name, Tensor::from_host(device, part.held_shape(), values), part};
}

void save_file(const Scratch& folder, int file, const std::vector<StateTensor>& tensors, std::size_t files) {
  write_rank_file(
      folder / "", file, header_of(tensors, {{"ranks", std::to_string(files)}}), [&](SafetensorsWriter& writer) {
        read_in_pieces(tensors,
                       [&](const StateTensor& /*tensor*/, std::span<const std::byte> bytes) { writer.write(bytes); });
      });
}

void save(const Scratch& folder, const std::vector<std::vector<StateTensor>>& of_each_file) {
  for (std::size_t file = 0; file < of_each_file.size(); ++file)
    save_file(folder, static_cast<int>(file), of_each_file[file], of_each_file.size());
}

Shape random_shape(RandomStream& draws) {
  std::vector<std::int64_t> sizes;
  for (std::uint64_t rank = draws.below(4); sizes.size() < rank;)
    sizes.push_back(1 + static_cast<std::int64_t>(draws.below(9)));
  return Shape(sizes);
}

/// Rows 0 .. 3 and 4 .. 9 of a [10,3] in two files.
class TwoFiles {
 public:
  TwoFiles() { save(folder_, {{counted(device_, "w", rows(0, 4))}, {counted(device_, "w", rows(4, 6))}}); }

  static ParameterPart rows(std::int64_t begin, std::int64_t size) {
    ParameterPart part = ParameterPart::all_of({10, 3});
    part.box[0] = {begin, size};
    return part;
  }

  /// What is said of them when all of a tensor is wanted, with DIR for the folder.
  std::string complaint(const ParameterPart& wanted = rows(0, 10), const std::string& name = "w",
                        DType dtype = DType::i64) {
    const std::string dir = (folder_ / "").string();
    std::string message = message_of<InputError>([&] {
      const CheckpointFiles files(folder_ / "");
      const StateTensor tensor{name, Tensor::zeros(device_, wanted.held_shape(), dtype), wanted};
      files.check(tensor);
      for (int file = 0; file < files.size(); ++file) {
        files.verify(file);
        files.load(file, {tensor});
      }
    });
    for (std::size_t at = message.find(dir); at != std::string::npos; at = message.find(dir))
      message.replace(at, dir.size(), "DIR/");
    return message;
  }

  void put(int file, const std::vector<SafetensorsEntry>& entries, SafetensorsMetadata metadata) {
    metadata.emplace("ranks", "2");
    SafetensorsWriter writer(path(file), entries, metadata);
    for (const SafetensorsEntry& entry : entries) writer.write(std::vector<std::byte>(entry.bytes()));
    writer.commit();
    write_file_atomically(folder_ / fmt::format("rank-{}.crc32c", file).c_str(),
                          fmt::format("{:08x}\n", writer.checksum()));
  }

  std::filesystem::path path(int file) const { return folder_ / fmt::format("rank-{}.safetensors", file).c_str(); }
  const Scratch& folder() const { return folder_; }
  Device& device() { return device_; }

 private:
  Scratch folder_;
  Device device_ = test::make_device();
};

}  // namespace

TEST_CASE("wholes in parts of one kind are read in parts of another, element by element" *
          doctest::test_suite(test::long_under_sanitizers)) {
  Device device = test::make_device();
  const Scratch folder;
  constexpr std::uint64_t tensors = 100;
  std::vector<std::vector<StateTensor>> saved;
  for (std::uint64_t seed = 0; seed < tensors; ++seed) {
    RandomStream draws({seed}, Purpose::test, 0, 0);
    const std::vector<ParameterPart> parts = random_parts(draws, random_shape(draws));
    saved.resize(std::max(saved.size(), parts.size()));
    for (std::size_t i = 0; i < parts.size(); ++i)
      saved[i].push_back(counted(device, fmt::format("w{}", seed), parts[i]));
  }
  save(folder, saved);
  const CheckpointFiles files(folder / "");
  for (std::uint64_t seed = 0; seed < tensors; ++seed) {
    RandomStream draws({seed}, Purpose::test, 0, 0);
    const Shape whole = random_shape(draws);
    RandomStream others({seed}, Purpose::test, 1, 0);
    for (const ParameterPart& part : random_parts(others, whole)) {
      CAPTURE(seed);
      const StateTensor expected = counted(device, fmt::format("w{}", seed), part);
      const StateTensor read{expected.name, Tensor::zeros(device, part.held_shape(), DType::i64), part};
      files.check(read);
      for (int file = 0; file < files.size(); ++file) files.load(file, {read});
      CHECK(read.value.to_host<std::int64_t>() == expected.value.to_host<std::int64_t>());
    }
  }
}

TEST_CASE("a tensor larger than the host buffer is read whole, also in rows with gaps") {
  Device device = test::make_device();
  const Scratch folder;
  const Shape whole{3000, 700};
  save(folder, {{counted(device, "w", ParameterPart::all_of(whole))}});
  const CheckpointFiles files(folder / "");
  ParameterPart columns = ParameterPart::all_of(whole);
  columns.box[1] = {1, 699};
  for (const ParameterPart& part : {ParameterPart::all_of(whole), columns}) {
    const StateTensor read{"w", Tensor::zeros(device, part.held_shape(), DType::i64), part};
    files.load(0, {read});
    CHECK(read.value.to_host<std::int64_t>() == counted(device, "w", part).value.to_host<std::int64_t>());
  }
}

TEST_CASE("16-bit state keeps the bits of all finite values, and others are refused") {
  Device device = test::make_device();
  const Scratch folder;
  std::vector<std::uint16_t> bits(1 << 16);
  constexpr unsigned infinity = 0x7F80;
  for (unsigned i = 0; i < bits.size(); ++i)
    bits[i] = static_cast<std::uint16_t>((i & infinity) == infinity ? i & ~infinity : i);
  const ParameterPart all = ParameterPart::all_of({256, 256});
  StateTensor saved{"w", Tensor::zeros(device, {256, 256}, DType::bf16), all};
  saved.value.load_bytes(std::as_bytes(std::span(bits)));
  save(folder, {{saved}});
  const CheckpointFiles files(folder / "");
  ParameterPart half = all;
  half.box[0] = {128, 128};
  const StateTensor read{"w", Tensor::zeros(device, {128, 256}, DType::bf16), half};
  files.check(read);
  files.load(0, {read});
  std::vector<std::uint16_t> found(bits.size() / 2);
  read.value.to_host_bytes(DType::bf16, std::as_writable_bytes(std::span(found)));
  CHECK(std::equal(found.begin(), found.end(), bits.begin() + 128 * 256));

  bits.back() = infinity;
  saved.value.load_bytes(std::as_bytes(std::span(bits)));
  save(folder, {{saved}});
  const CheckpointFiles diverged(folder / "");
  CHECK(message_of<InputError>([&] { diverged.load(0, {read}); }) ==
        (folder / "rank-0.safetensors").string() + ": w has an element that is inf");
}

TEST_CASE("errors name the parts that are missing from a checkpoint") {
  TwoFiles two;
  CHECK(two.complaint() == "no error");
  CHECK(two.complaint(ParameterPart::all_of({12, 3})) ==
        "DIR/rank-0.safetensors: w is i64[10,3], but this run needs i64[12,3]");
  CHECK(two.complaint(ParameterPart::all_of({10, 4})) ==
        "DIR/rank-0.safetensors: w is i64[10,3], but this run needs i64[10,4]");
  CHECK(two.complaint(ParameterPart::all_of({30})) ==
        "DIR/rank-0.safetensors: w is i64[10,3], but this run needs i64[30]");
  CHECK(two.complaint(TwoFiles::rows(0, 10), "w", DType::f32) ==
        "DIR/rank-0.safetensors: w is i64[10,3], but this run needs f32[10,3]");
  CHECK(two.complaint(TwoFiles::rows(0, 10), "v") == "DIR/: has no tensor 'v'");
  std::filesystem::remove(two.path(1));
  CHECK(two.complaint().starts_with("DIR/rank-1.safetensors: cannot be read"));
}

TEST_CASE("parts with a gap, and parts that overlap, are refused") {
  TwoFiles two;
  save_file(two.folder(), 1, {counted(two.device(), "w", TwoFiles::rows(5, 5))}, 2);
  CHECK(two.complaint() == "DIR/: its 2 files hold 27 of the 30 elements of w that a rank needs");
  CHECK(two.complaint(TwoFiles::rows(5, 5)) == "no error");
  save_file(two.folder(), 1, {counted(two.device(), "w", TwoFiles::rows(3, 7))}, 2);
  CHECK(two.complaint() == "DIR/rank-0.safetensors and DIR/rank-1.safetensors: both hold 3 of the same elements of w");
  // A gap and an overlap of one size.
  save_file(two.folder(), 1, {counted(two.device(), "w", TwoFiles::rows(3, 6))}, 2);
  CHECK(two.complaint() == "DIR/rank-0.safetensors and DIR/rank-1.safetensors: both hold 3 of the same elements of w");
  std::filesystem::copy_file(two.path(0), two.path(1), std::filesystem::copy_options::overwrite_existing);
  CHECK(two.complaint() == "DIR/rank-0.safetensors and DIR/rank-1.safetensors: both hold 12 of the same elements of w");
}

TEST_CASE("an impossible part is refused, whatever its text") {
  TwoFiles two;
  for (const char* text : {"",
                           "[6,3]",
                           "[10,3] at [4,0]",
                           "[10,3] at [4,0] size [6,3] ",
                           "[10,3] at [4,0] size [6,3]x",
                           "[10,3] at [5,0] size [6,3]",
                           "[10,3] at [-4,0] size [6,3]",
                           "[10,3] at [4,0] size [-6,3]",
                           "[10,3] at [4] size [6,3]",
                           "[10,3] at [4,0] size [6]",
                           "[10,3] at [4,0,0] size [6,3,1]",
                           "[10,3] at [] size []",
                           "[10,3] at [4,0] size [6,3",
                           "[10,3] at [4,,0] size [6,3]",
                           "[10, 3] at [4,0] size [6,3]",
                           "[10,3] at [4.0,0] size [6,3]",
                           "[10,3] at [18446744073709551620,0] size [6,3]",
                           "[10,3] at [9223372036854775807,0] size [6,3]",
                           "[10,3] at [4,0] size [9223372036854775807,3]",
                           "[9223372036854775807,9223372036854775807] at [4,0] size [6,3]",
                           "[4294967296,4294967296] at [4,0] size [6,3]",
                           "[0,9223372036854775807] at [0,0] size [0,3]",
                           "[10,3,1,1,1,1,1] at [4,0,0,0,0,0,0] size [6,3,1,1,1,1,1]",
                           "[10,3] at [4,0] size [6,3] elements [0,18]",
                           "[10,3] at [4,0] size [6,3] elements [1,18]",
                           "[10,3] at [4,0] size [6,3] elements [-1,18]",
                           "[10,3] at [4,0] size [6,3] elements [18]",
                           "[10,3] at [4,0] size [6,3] elements [9223372036854775807,18]",
                           "[10,3] at [4,0] size [5,3]"}) {
    two.put(1, {{"w", DType::i64, {6, 3}}}, {{"part of w", text}});
    CAPTURE(text);
    CHECK(two.complaint().starts_with("DIR/rank-1.safetensors: tensor 'w' is i64[6,3]: it cannot be the part '"));
  }
  two.put(1, {{"w", DType::i64, {6, 3}}}, {});
  CHECK(two.complaint() == "DIR/rank-1.safetensors: does not state the part of the whole that its tensor 'w' is");
  two.put(1, {{"w", DType::i64, {6, 3}}}, {{"part of w", "[10,3] at [4,0] size [6,3]"}, {"part of v", "?"}});
  CHECK(two.complaint() == "DIR/rank-1.safetensors: belongs to a different checkpoint than DIR/rank-0.safetensors");
  for (const char* ranks : {"", "0", "-1", "two", "2 ", "99999999999999999999"}) {
    two.put(0, {}, {{"ranks", ranks}});
    CHECK(two.complaint() ==
          fmt::format("DIR/rank-0.safetensors: does not state how many ranks saved the checkpoint: '{}'", ranks));
  }
}

TEST_CASE("a file of a checkpoint that is cut short, or has one byte changed, is refused by its name") {
  TwoFiles two;
  RandomStream draws({3}, Purpose::test, 0, 0);
  for (const std::string rank : {"rank-0.", "rank-1."})
    for (const char* kind : {"safetensors", "crc32c"}) {
      const std::filesystem::path path = two.folder() / (rank + kind).c_str();
      const std::string whole = read_file(path, 1 << 20);
      const auto write = [&](const std::string& contents) {
        std::ofstream(path, std::ios::binary) << contents;
        return two.complaint();
      };
      CAPTURE(path);
      for (std::size_t size = 0; size < whole.size(); size += 3) {
        CAPTURE(size);
        CHECK(write(whole.substr(0, size)).find("DIR/" + rank) != std::string::npos);
      }
      for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ static_cast<char>(1 + draws.below(255)));
        CAPTURE(at);
        CHECK(write(changed).find("DIR/" + rank) != std::string::npos);
      }
      CHECK(write(whole) == "no error");
    }
  std::filesystem::remove(two.folder() / "rank-1.crc32c");
  CHECK(two.complaint().starts_with("DIR/rank-1.crc32c: cannot be read"));
}

}  // namespace heddle::test
