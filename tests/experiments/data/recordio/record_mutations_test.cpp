// Damages files of records in every way.
#include <algorithm>

#include <doctest/doctest.h>

#include "experiments/data/recordio/face_records.h"
#include "tests/experiments/data/recordio/record_samples.h"
#include "tests/support/files/mutations.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

/// A `.rec` with its index and its property.
struct RecordFiles {
  Bytes records;
  Bytes index;
  Bytes property;
};

RecordFiles files_of(const std::vector<KeyedPayload>& records) {
  const Scratch folder;
  write_records(folder / "a.rec", records);
  return {read_bytes(folder / "a.rec"), read_bytes(folder / "a.idx"), bytes_of("9,112,112\n")};
}

std::string_view as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<RecordFiles> whole_files() {
  Bytes split = bytes_of("1234");
  for (int i = 0; i < 3; ++i) append(split, bytes_of_number(record_magic));
  const std::vector<float> header{4, 6};
  const std::vector<float> aligned{2, 1};
  const std::vector<float> range{1, 2};
  const Bytes image = bytes_of("encoded image");
  return {files_of({{0, pack_image_record(header, 0, {})},
                    {1, pack_image_record(0, 1, image)},
                    {2, pack_image_record(aligned, 2, split)},
                    {3, pack_image_record(8, record_magic, image)},
                    {4, pack_image_record(range, 4, {})},
                    {5, pack_image_record(range, 5, {})}}),
          files_of({{7, pack_image_record(3, 7, split)}, {0, pack_image_record(1, 0, image)}}),
          files_of({{0, pack_image_record(aligned, 0, image)}, {1, pack_image_record(0, 1, split)}})};
}

class Damage {
 public:
  explicit Damage(RandomStream& draws) : draws_(draws) {}

  std::uint64_t below(std::uint64_t n) { return draws_.below(n); }

  void to(RecordFiles& files) {
    for (std::uint64_t edits = 1 + below(4); edits > 0; --edits) {
      const std::uint64_t file = below(8);
      if (file == 0)
        edit_text(files.property, "0123456789,-. \n");
      else if (file < 3)
        edit_text(files.index, "0123456789\t-+ \r\n");
      else
        edit_records(files.records);
    }
  }

 private:
  void edit_records(Bytes& bytes) {
    if (bytes.size() < 4) return;
    constexpr std::array<std::uint32_t, 13> words{0,          1,          2,          0xffffffff, record_magic,
                                                  0x20000000, 0x40000000, 0x60000000, 0x1fffffff, 0x7fc00000,
                                                  0x7f800000, 0x4b800001, 0x58635fa9};
    const std::uint64_t word_at = below(bytes.size() / 4) * 4;
    const Bytes word = bytes_of_number(words[below(words.size())]);
    switch (below(6)) {
      case 0:
        std::copy(word.begin(), word.end(), bytes.begin() + static_cast<std::ptrdiff_t>(word_at));
        break;
      case 1:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(word_at), word.begin(), word.end());
        break;
      case 2:
        bytes[word_at] = static_cast<std::uint8_t>(bytes[word_at] + below(16) - 8);  // a length, for instance
        break;
      default:
        edit(bytes);
    }
  }

  void edit_text(Bytes& text, std::string_view alphabet) {
    if (text.empty() || below(4) == 0) return edit(text);
    const auto at = text.begin() + static_cast<std::ptrdiff_t>(below(text.size()));
    const auto letter = static_cast<std::uint8_t>(alphabet[below(alphabet.size())]);
    if (below(2) == 0)
      *at = letter;
    else
      text.insert(at, 1 + below(20), letter);
  }

  void edit(Bytes& bytes) {
    if (bytes.empty()) return;
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size()));
    const auto length = static_cast<std::ptrdiff_t>(below(static_cast<std::uint64_t>(bytes.end() - at)) + 1);
    switch (below(5)) {
      case 0:
        *at = static_cast<std::uint8_t>(*at ^ (1U << below(8)));
        break;
      case 1:
        *at = static_cast<std::uint8_t>(below(256));
        break;
      case 2:
        bytes.erase(at, bytes.end());
        break;
      case 3:
        bytes.erase(at, at + length);
        break;
      default: {
        const Bytes piece(at, at + length);
        bytes.insert(at, piece.begin(), piece.end());
      }
    }
  }

  RandomStream& draws_;
};

/// Opens the files, reads all images and returns their number.
std::int64_t read_everything(const fs::path& path, const OnBrokenRecord& on_broken) {
  const FaceRecords faces(path, on_broken);
  std::vector<std::uint8_t> buffer;
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < faces.size(); ++i) {
    REQUIRE(faces.label(i) >= 0);
    REQUIRE(faces.label(i) < faces.classes());
    for (const std::uint8_t byte : faces.image(i, buffer)) sum += byte;
  }
  REQUIRE(sum < std::uint64_t{1} << 32);
  return faces.size();
}

}  // namespace

TEST_CASE("recordio: damaged files are read, or refused with their name") {
  const Scratch folder;
  const std::string prefix = (folder / "").string();
  const std::vector<RecordFiles> whole = whole_files();
  std::int64_t inputs = 0;
  std::int64_t left_out = 0;
  std::int64_t images = 0;
  const OnBrokenRecord leave_out = [&](const std::string& message) {
    ++left_out;
    REQUIRE(message.starts_with(prefix));
  };
  check_mutations(4000, 0.25, prefix, [&](RandomStream& draws) {
    ++inputs;
    Damage damage(draws);
    RecordFiles files = whole[damage.below(whole.size())];
    damage.to(files);
    rewrite(folder / "a.rec", as_text(files.records));
    rewrite(folder / "property", as_text(files.property));
    if (damage.below(3) == 0)
      fs::remove(folder / "a.idx");
    else
      rewrite(folder / "a.idx", as_text(files.index));
    images += read_everything(folder / "a.rec", damage.below(2) == 0 ? leave_out : OnBrokenRecord());
  });
  CHECK(left_out > inputs / 20);
  CHECK(images > inputs / 4);
}

}  // namespace heddle::test
