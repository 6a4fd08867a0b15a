#include "experiments/data/recordio/face_writer.h"

#include <doctest/doctest.h>

#include "tests/experiments/data/recordio/record_samples.h"

namespace heddle::test {
namespace {

/// An image record or one of keys, as its file holds it.
std::string text_of_record(const RecordFile& file, RecordPlace place) {
  std::vector<std::uint8_t> buffer;
  const ImageRecord record = parse_image_record(file.read(place, buffer).bytes, file.name(place.key));
  std::string text = fmt::format("{}: id {} flag {}", place.key, record.id, record.flag);
  if (record.flag == 0) text += fmt::format(" label {}", record.header_label);
  for (std::uint32_t i = 0; i < record.flag; ++i) text += fmt::format(" {}", record.label(i));
  return text + " " + std::string(record.image.begin(), record.image.end());
}

std::vector<std::string> records_of(const std::filesystem::path& path) {
  const RecordFile file(path);
  const RecordIndex index = read_record_index(std::filesystem::path(path).replace_extension(".idx"), file);
  std::vector<std::string> records;
  for (std::size_t i = 0; i < index.size(); ++i) records.push_back(text_of_record(file, index.place(i)));
  return records;
}

void write_faces(const std::filesystem::path& path, RecordLayout layout) {
  FaceWriter writer(path, layout);
  for (const auto& [label, bytes] : std::vector<std::pair<int, std::string>>{{0, "a"}, {0, "b"}, {2, "c"}, {0, "d"}})
    writer.add(label, bytes_of(bytes));
  writer.commit(FaceProperty{.classes = 3, .height = 8, .width = 6});
}

}  // namespace

TEST_CASE("faces are written in face2rec2's layout: record 0, images from key 1 on, a record for each run of a label") {
  const Scratch folder;
  write_faces(folder / "a.rec", RecordLayout::identities);
  CHECK(folder.files() == 3);
  CHECK(records_of(folder / "a.rec") == std::vector<std::string>{"0: id 0 flag 2 5 8 ", "1: id 1 flag 0 label 0 a",
                                                                 "2: id 2 flag 0 label 0 b", "3: id 3 flag 0 label 2 c",
                                                                 "4: id 4 flag 0 label 0 d", "5: id 5 flag 2 1 3 ",
                                                                 "6: id 6 flag 2 3 4 ", "7: id 7 flag 2 4 5 "});
  CHECK(read_file(folder / "property", 100) == "3,8,6");
  for (const bool with_index : {true, false}) {
    if (!with_index) std::filesystem::remove(folder / "a.idx");
    const FaceRecords faces(folder / "a.rec");
    REQUIRE(faces.size() == 4);
    CHECK(faces.label(2) == 2);
    CHECK(faces.classes() == 3);
    CHECK(faces.classes_without_images() == 1);
  }
}

TEST_CASE("faces are written in shuffle_rec's layout: images alone, from key 0 on") {
  const Scratch folder;
  write_faces(folder / "a.rec", RecordLayout::plain);
  CHECK(records_of(folder / "a.rec") == std::vector<std::string>{"0: id 0 flag 0 label 0 a", "1: id 1 flag 0 label 0 b",
                                                                 "2: id 2 flag 0 label 2 c",
                                                                 "3: id 3 flag 0 label 0 d"});
  CHECK(FaceRecords(folder / "a.rec").size() == 4);
}

TEST_CASE("faces that are not committed, or whose index cannot be, leave no file") {
  const Scratch folder;
  {
    FaceWriter writer(folder / "a.rec", RecordLayout::identities);
    writer.add(0, bytes_of("a"));
    CHECK(without_folder(message_of<InputError>([&] { writer.add((1 << 24) + 1, bytes_of("b")); }), folder) ==
          "a.rec: label 16777217 is above 16777216, up to which 32-bit floats hold every integer");
  }
  CHECK(folder.files() == 0);
  std::filesystem::create_directory(folder / "a.idx");
  CHECK(without_folder(message_of<InputError>([&] { write_faces(folder / "a.rec", RecordLayout::plain); }), folder) ==
        "a.idx: cannot be written: Is a directory");
  CHECK_FALSE(std::filesystem::exists(folder / "a.rec"));
  CHECK_FALSE(std::filesystem::exists(folder / "property"));
}

}  // namespace heddle::test
