#include "experiments/data/recordio/face_records.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "tests/experiments/data/recordio/record_samples.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

using Labels = std::vector<float>;

Bytes image(float label, std::string_view bytes = "image") {
  return pack_image_record(label, 0, bytes_of(bytes));
}
Bytes image(const Labels& labels, std::string_view bytes = "image") {
  return pack_image_record(labels, 0, bytes_of(bytes));
}

/// A file in InsightFace's layout with these images after record 0, and then one identity record for each of `people`.
std::vector<KeyedPayload> insightface(const std::vector<Bytes>& images, std::uint64_t people) {
  const std::uint64_t first = images.size() + 1;
  std::vector<KeyedPayload> records{{0, image({static_cast<float>(first), static_cast<float>(first + people)}, "")}};
  for (const Bytes& payload : images) records.push_back({records.size(), payload});
  for (std::uint64_t i = 0; i < people; ++i) records.push_back({records.size(), image({1, 2}, "")});
  return records;
}

std::vector<std::int64_t> labels_of_faces(const FaceRecords& faces) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < faces.size(); ++i) labels.push_back(faces.label(i));
  return labels;
}

std::string bytes_at(const FaceRecords& faces, std::int64_t i) {
  std::vector<std::uint8_t> buffer;
  const auto bytes = faces.image(i, buffer);
  return {bytes.begin(), bytes.end()};
}

std::string opening_error(const Scratch& folder) {
  return without_folder(message_of<InputError>([&] { FaceRecords faces(folder / "a.rec"); }), folder);
}

/// The error on opening a file with these records, with an index and without.
void refuses_records(const std::vector<KeyedPayload>& records, const std::string& message) {
  const Scratch folder;
  write_records(folder / "a.rec", records);
  CHECK(opening_error(folder) == message);
  fs::remove(folder / "a.idx");
  CHECK(opening_error(folder) == message);
}

TEST_CASE("an index that stops before the end of the file is reported, unless record 0 says where images end") {
  const Scratch folder;
  write_records(folder / "a.rec", {{0, image(0)}, {1, image(1)}, {2, image(1)}});
  CHECK(FaceRecords(folder / "a.rec").index_note().empty());
  const std::string index = read_file(folder / "a.idx", 1000);
  write_file_atomically(folder / "a.idx", index.substr(0, index.rfind('\n', index.size() - 2) + 1));
  const auto bytes = fs::file_size(folder / "a.rec") / 3;
  CHECK(without_folder(FaceRecords(folder / "a.rec").index_note(), folder) ==
        fmt::format("a.rec: {} bytes of the file follow the last of the 2 images that its .idx lists, and are left out",
                    bytes));
  write_records(folder / "b.rec", insightface({image(0), image(1)}, 2));
  CHECK(FaceRecords(folder / "b.rec").index_note().empty());
}

struct Opened {
  std::vector<std::int64_t> labels;
  std::vector<std::string> names;
  std::vector<std::string> broken;
};

/// Opens a file without its broken images.
Opened opened_without_broken(const Scratch& folder) {
  Opened opened;
  const FaceRecords faces(
      folder / "a.rec", [&](const std::string& message) { opened.broken.push_back(without_folder(message, folder)); });
  opened.labels = labels_of_faces(faces);
  for (std::int64_t i = 0; i < faces.size(); ++i) {
    opened.names.push_back(without_folder(faces.name(i), folder));
    CHECK_FALSE(bytes_at(faces, i).empty());
  }
  return opened;
}

}  // namespace

TEST_CASE("image record: label, id and image are packed as MXNet packs them, and parsed back") {
  const fs::path file("a.rec");
  const RecordName name{file, 3};
  const Bytes one = pack_image_record(2.5F, 0x0102030405060708, bytes_of("xyz"));
  CHECK(one == Bytes{0, 0, 0, 0, 0, 0, 0x20, 0x40, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 'x', 'y', 'z'});
  CHECK(parse_image_record(one, name).label() == 2.5F);
  const Bytes several = pack_image_record(Labels{7, 1, -3}, 9, bytes_of("xyz"));
  const ImageRecord record = parse_image_record(several, name);
  CHECK(record.flag == 3);
  CHECK(record.id == 9);
  CHECK(record.header_label == 0);
  CHECK(record.label() == 7);
  CHECK(record.label(2) == -3);
  CHECK(Bytes(record.image.begin(), record.image.end()) == bytes_of("xyz"));
  const auto complaint = [&](Bytes payload) {
    return message_of<InputError>([&] { parse_image_record(payload, name); });
  };
  CHECK(complaint(Bytes(23)) == "a.rec, record 3: has 23 bytes; the header of an image has 24");
  CHECK(complaint(Bytes(28, 0xff)) == "a.rec, record 3: its flag announces 4294967295 labels, but only 4 bytes follow");
}

TEST_CASE("face records: InsightFace's layout has images up to the first identity, with or without an index") {
  const Scratch folder;
  write_records(folder / "a.rec", insightface({image(0), image({2, 1}, "second"), image({0, 1})}, 2));
  for (const bool has_index : {true, false}) {
    if (!has_index) fs::remove(folder / "a.idx");
    const FaceRecords faces(folder / "a.rec");
    CHECK(labels_of_faces(faces) == std::vector<std::int64_t>{0, 2, 0});
    CHECK(bytes_at(faces, 1) == "second");
    CHECK(faces.name(1) == (folder / "a.rec").string() + ", record 2");
    CHECK(faces.classes() == 3);
    CHECK(faces.classes_without_images() == 1);
    CHECK_FALSE(faces.property());
  }
}

TEST_CASE("face records: in InsightFace's layout images are in the order of their keys, not of the file") {
  const Scratch folder;
  std::vector<KeyedPayload> records = insightface({image(0), image(1), image(2), image(3)}, 1);
  std::swap(records[0], records[5]);
  std::swap(records[1], records[3]);
  write_records(folder / "a.rec", records);
  const FaceRecords faces(folder / "a.rec");
  CHECK(labels_of_faces(faces) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(faces.name(3) == (folder / "a.rec").string() + ", record 4");
}

TEST_CASE("face records: in any other file every record is an image, in the order of the index") {
  const Scratch folder;
  write_records(folder / "a.rec", {{4, image(1, "four")}, {0, image({2, 1}, "zero")}, {9, image(0, "nine")}});
  {
    const FaceRecords faces(folder / "a.rec");
    CHECK(labels_of_faces(faces) == std::vector<std::int64_t>{1, 2, 0});
    CHECK(bytes_at(faces, 2) == "nine");
    CHECK(faces.name(2) == (folder / "a.rec").string() + ", record 9");
  }
  std::string reversed;
  const std::string text = read_file(folder / "a.idx", 100);
  for (const auto& line : {text.substr(text.rfind('\n', text.size() - 2) + 1), text.substr(0, text.find('\n') + 1)})
    reversed += line;
  write_text(folder / "a.idx", reversed);
  {
    const FaceRecords faces(folder / "a.rec");
    CHECK(labels_of_faces(faces) == std::vector<std::int64_t>{0, 1});
    CHECK(bytes_at(faces, 0) == "nine");
    CHECK(bytes_at(faces, 1) == "four");
  }
  fs::remove(folder / "a.idx");
  CHECK(labels_of_faces(FaceRecords(folder / "a.rec")) == std::vector<std::int64_t>{1, 2, 0});
}

TEST_CASE("face records: labels are read in pieces by several threads") {
  const Scratch folder;
  std::vector<KeyedPayload> records;
  constexpr std::uint64_t images = 20000;
  for (std::uint64_t i = 0; i < images; ++i)
    records.push_back({i * 7919 % images, image(static_cast<float>(i % 1000), std::to_string(i))});
  write_records(folder / "a.rec", records);
  const FaceRecords faces(folder / "a.rec");
  REQUIRE(faces.size() == static_cast<std::int64_t>(images));
  bool are_equal = true;
  for (std::int64_t i = 0; i < faces.size(); ++i) {
    are_equal &= faces.label(i) == i % 1000;
    are_equal &= bytes_at(faces, i) == std::to_string(i);
  }
  CHECK(are_equal);
}

TEST_CASE("face records: a label that is not a class is refused with its record and its value") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto refuses_label = [](float label, const std::string& reason) {
    refuses_records({{0, image(0)}, {1, image(label)}}, "a.rec, record 1: label " + reason);
    refuses_records(insightface({image(0), image({label, 1})}, 1), "a.rec, record 2: label " + reason);
  };
  const std::string above = " is above 16777216, up to which 32-bit floats hold every integer";
  refuses_label(0.5F, "0.5 is not an integer");
  refuses_label(std::nanf(""), "nan is not an integer");
  refuses_label(-1, "-1 is negative");
  refuses_label(-infinity, "-inf is negative");
  refuses_label(infinity, "inf" + above);
  refuses_label(16777218, "16777218" + above);
  const Scratch folder;
  write_records(folder / "a.rec", {{0, image(16777216)}});
  CHECK(FaceRecords(folder / "a.rec").classes() == 16777217);
}

TEST_CASE("face records: a record that cannot be an image is refused") {
  const Bytes good = image(0);
  refuses_records({{0, good}, {1, bytes_of("short")}}, "a.rec, record 1: has 5 bytes; the header of an image has 24");
  Bytes many_labels = good;
  std::fill(many_labels.begin(), many_labels.begin() + 4, std::uint8_t{0xff});
  refuses_records({{0, good}, {1, many_labels}},
                  "a.rec, record 1: its flag announces 4294967295 labels, but only 5 bytes follow");
  refuses_records({{0, good}, {1, image(0, "")}}, "a.rec, record 1: there is no image in it");
  refuses_records({{0, bytes_of("short")}, {1, good}}, "a.rec, record 0: has 5 bytes; the header of an image has 24");
}

TEST_CASE("face records: an impossible header record is refused") {
  const auto refuses_header = [](const Labels& labels, const std::string& got) {
    refuses_records({{0, image(labels, "")}, {1, image(0)}},
                    "a.rec, record 0: expected the first key of the identities and the end of their keys, got " + got);
  };
  refuses_header({0, 5}, "0 and 5");
  refuses_header({1.5F, 5}, "1.5 and 5");
  refuses_header({3, 2}, "3 and 2");
  refuses_header({std::nanf(""), 5}, "nan and 5");
  refuses_header({2, 1e30F}, "2 and 1e+30");
  refuses_records({{0, image({1, 2}, "")}, {1, image({1, 1}, "")}}, "a.rec: there is no image in it");

  const Scratch folder;
  write_records(folder / "a.rec", {{0, image({1e15F, 1e15F}, "")}, {1, image(0)}});
  CHECK(opening_error(folder) ==
        "a.idx: key 2 is missing; record 0 of a.rec says that keys 1 to 999999986991103 are images");
  fs::remove(folder / "a.idx");
  CHECK(opening_error(folder) ==
        "a.rec: ends with record 1; record 0 says that records 1 to 999999986991103 are images");
  write_records(folder / "a.rec", {{0, image({4, 4}, "")}, {1, image(0)}, {3, image(0)}});
  CHECK(opening_error(folder) == "a.idx: key 2 is missing; record 0 of a.rec says that keys 1 to 3 are images");
}

TEST_CASE("face records: the first identity of more than 2^24 images is found despite the rounded key") {
  const auto first_from = [](std::uint64_t truth) { return [truth](std::uint64_t key) { return key >= truth; }; };
  for (const std::uint64_t truth :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{16777215}, std::uint64_t{16777216}, std::uint64_t{16777217},
        std::uint64_t{16777219}, std::uint64_t{17091657}, std::uint64_t{17091658}, std::uint64_t{33554433},
        std::uint64_t{33554434}, std::uint64_t{42474558}, std::uint64_t{42474559}, std::uint64_t{260000001}})
    CHECK(first_identity(static_cast<float>(truth), truth + 1000, first_from(truth)) == truth);
  const auto never = [](std::uint64_t) { return false; };
  CHECK(first_identity(17091658, 17500000, never) == 17091658);
  CHECK(first_identity(17091658, 17091658, first_from(17091657)) == 17091657);
  CHECK(first_identity(0x1p62F, 1000, never) == std::uint64_t{1} << 62);
}

TEST_CASE("face records: property gives the number of classes, and larger labels are refused") {
  const Scratch folder;
  write_records(folder / "a.rec", {{0, image(0)}, {1, image(4)}, {2, image(1)}});
  write_text(folder / "property", "5,112,96\n");
  {
    const FaceRecords faces(folder / "a.rec");
    CHECK(faces.classes() == 5);
    CHECK(faces.classes_without_images() == 2);
    REQUIRE(faces.property());
    CHECK(faces.property()->height == 112);
    CHECK(faces.property()->width == 96);
  }
  write_text(folder / "property", "7,112,112");
  {
    const FaceRecords faces(folder / "a.rec");
    CHECK(faces.classes() == 7);
    CHECK(faces.classes_without_images() == 4);
  }
  write_text(folder / "property", "4,112,112\r\n");
  CHECK(opening_error(folder) ==
        "a.rec, record 1: label 4 is not one of the 4 classes that the file \"property\" announces");
  std::vector<std::string> said;
  const FaceRecords others(folder / "a.rec", [&](const std::string& message) { said.push_back(message); });
  CHECK(labels_of_faces(others) == std::vector<std::int64_t>{0, 1});
  CHECK(others.name(1) == (folder / "a.rec, record 2").string());
  REQUIRE(said.size() == 1);
  CHECK(said.front().ends_with(
      "a.rec, record 1: label 4 is not one of the 4 classes that the file \"property\" announces"));
  write_text(folder / "property", "1,112,112");
  write_records(folder / "a.rec", {{0, image(1)}});
  CHECK(without_folder(message_of<InputError>([&] { FaceRecords faces(folder / "a.rec", [](const std::string&) {}); }),
                       folder) ==
        "a.rec: none of 1 image can be used; the first: a.rec, record 0: label 1 is not one of "
        "the 1 classes that the file \"property\" announces");
  const std::string expected = "property: expected classes,height,width with at most 16777217 classes, got ";
  for (const char* text : {"", "5", "5,112", "5,112,", "5,112,112,3", "0,112,112", "-5,112,112", "5,0,112", "5;112;112",
                           "5, 112, 112", "16777218,112,112", "99999999999999999999,112,112"}) {
    write_text(folder / "property", text);
    CHECK(opening_error(folder) == expected + "\"" + text + "\"");
  }
  write_text(folder / "property", std::string(101, '1'));
  CHECK(opening_error(folder) == "property: has 101 bytes, expected at most 100");
}

TEST_CASE("face records: a dangling index is an error, not a walk through the file") {
  const Scratch folder;
  write_records(folder / "a.rec", {{0, image(0)}});
  fs::remove(folder / "a.idx");
  fs::create_symlink("none", folder / "a.idx");
  CHECK(opening_error(folder) == "a.idx: cannot be read: No such file or directory");
  fs::remove(folder / "a.idx");
  fs::create_directory(folder / "a.idx");
  CHECK(opening_error(folder) == "a.idx: cannot be read: it is not a regular file");
}

TEST_CASE("face records: broken images are left out if their errors are received") {
  const Scratch folder;
  const std::vector<std::string> broken{"a.rec, record 1: label -1 is negative",
                                        "a.rec, record 3: there is no image in it"};
  const std::vector<std::string> names{"a.rec, record 2", "a.rec, record 4"};
  write_records(folder / "a.rec", insightface({image(-1), image(1), image(0, ""), image(3)}, 2));
  for (const bool has_index : {true, false}) {
    if (!has_index) fs::remove(folder / "a.idx");
    const Opened opened = opened_without_broken(folder);
    CHECK(opened.labels == std::vector<std::int64_t>{1, 3});
    CHECK(opened.names == names);
    CHECK(opened.broken == broken);
  }
  write_records(folder / "a.rec", {{0, bytes_of("short")}, {1, image(2)}});
  CHECK(opened_without_broken(folder).broken ==
        std::vector<std::string>{"a.rec, record 0: has 5 bytes; the header of an image has 24"});
  write_records(folder / "a.rec", {{0, image(-1)}});
  CHECK(without_folder(message_of<InputError>([&] { opened_without_broken(folder); }), folder) ==
        "a.rec: none of 1 image can be used; the first: a.rec, record 0: label -1 is negative");
}

TEST_CASE("face records: without an index, the images before the end of a truncated file can be used") {
  const Scratch folder;
  write_records(folder / "a.rec", insightface({image(0), image(1), image(2)}, 1));
  const Bytes whole = read_bytes(folder / "a.rec");
  write_bytes(folder / "a.rec", Bytes(whole.begin(), whole.begin() + 130));
  CHECK(opening_error(folder) == "a.idx, line 5: offset 160 is beyond the end of a.rec, which has 130 bytes");
  fs::remove(folder / "a.idx");
  const std::string truncated =
      "a.rec, record 3: truncated: the 32 bytes from byte 128 on extend beyond the end of the file, which has 130";
  CHECK(opening_error(folder) == truncated);
  const Opened opened = opened_without_broken(folder);
  CHECK(opened.labels == std::vector<std::int64_t>{0, 1});
  CHECK(opened.broken == std::vector<std::string>{truncated + "; record 0 says that records 1 to 3 are images"});
}

}  // namespace heddle::test
