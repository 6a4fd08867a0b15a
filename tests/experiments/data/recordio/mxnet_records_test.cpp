// Reads the files of recordio_files/, which MXNet wrote and listed with mxnet_records.py.
#include <algorithm>
#include <map>
#include <sstream>

#include <doctest/doctest.h>

#include "experiments/data/image.h"
#include "experiments/data/recordio/face_records.h"
#include "tests/experiments/data/recordio/record_samples.h"
#include "tests/support/program/program.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

fs::path mxnet_file(const std::string& name) {
  return source_folder() / "tests/experiments/data/recordio_files" / name;
}

/// The CRC-32 of zlib.
std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = ~0U;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}

/// One record as MXNet's reader gave it.
struct Listed {
  std::uint64_t key = 0;
  std::size_t bytes = 0;
  std::uint32_t checksum = 0;
  std::uint32_t flag = 0;
  std::vector<float> labels;
  std::size_t image_bytes = 0;
  std::uint32_t image_checksum = 0;
};

std::vector<Listed> listed_records(const std::string& file) {
  std::istringstream lines(read_file(mxnet_file("listed.txt"), 1 << 20));
  std::vector<Listed> records;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::string labels;
    Listed record;
    words >> name >> record.key >> record.bytes >> std::hex >> record.checksum >> std::dec >> record.flag >> labels >>
        record.image_bytes >> std::hex >> record.image_checksum;
    std::istringstream numbers(labels);
    for (std::string number; std::getline(numbers, number, ',');) record.labels.push_back(std::stof(number));
    if (name == file) records.push_back(record);
  }
  REQUIRE_FALSE(records.empty());
  return records;
}

bool has_index(const std::string& file) {
  return fs::exists(mxnet_file(file).replace_extension(".idx"));
}

/// The payloads of a file that MXNet wrote, in the order of the file.
std::vector<KeyedPayload> payloads_of_mxnet(const std::string& file) {
  const RecordFile records(mxnet_file(file));
  const auto listed = listed_records(file);
  std::vector<KeyedPayload> payloads;
  records.walk([&](RecordPlace place, const Record& record) {
    payloads.push_back({listed.at(place.key).key, {record.bytes.begin(), record.bytes.end()}});
  });
  return payloads;
}

constexpr std::array files{"insightface.rec", "plain.rec", "shuffled.rec", "unindexed.rec", "payloads.rec"};
constexpr std::array face_files{"insightface.rec", "plain.rec", "shuffled.rec", "unindexed.rec"};

}  // namespace

TEST_CASE("recordio: every record that MXNet wrote has the bytes that MXNet reads, by a walk and by the index") {
  for (const std::string file : files) {
    CAPTURE(file);
    const RecordFile records(mxnet_file(file));
    RecordIndex index;
    records.walk([&](RecordPlace place, const Record&) { index.add(place); });
    if (has_index(file)) {
      const RecordIndex read = read_record_index(mxnet_file(file).replace_extension(".idx"), records);
      REQUIRE(read.size() == index.size());
      for (std::size_t i = 0; i < index.size(); ++i) CHECK(read.place(i).offset == index.place(i).offset);
      index = read;
    }
    const auto listed = listed_records(file);
    REQUIRE(index.size() == listed.size());
    std::vector<std::uint8_t> buffer;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      CAPTURE(i);
      CHECK(index.key(i) == listed[i].key);
      const Record record = records.read(index.place(i), buffer);
      CHECK(record.bytes.size() == listed[i].bytes);
      CHECK(crc32(record.bytes) == listed[i].checksum);
      if (file == "payloads.rec") continue;
      const ImageRecord image = parse_image_record(record.bytes, records.name(index.key(i)));
      CHECK(image.flag == listed[i].flag);
      CHECK(image.label() == listed[i].labels[0]);
      for (std::uint32_t label = 0; label < image.flag; ++label) CHECK(image.label(label) == listed[i].labels[label]);
      CHECK(image.image.size() == listed[i].image_bytes);
      CHECK(crc32(image.image) == listed[i].image_checksum);
    }
  }
}

TEST_CASE("recordio: our writer writes the same bytes as MXNet") {
  const Scratch folder;
  for (const std::string file : files) {
    CAPTURE(file);
    write_records(folder / "a.rec", payloads_of_mxnet(file));
    CHECK(read_bytes(folder / "a.rec") == read_bytes(mxnet_file(file)));
    if (has_index(file)) CHECK(read_bytes(folder / "a.idx") == read_bytes(mxnet_file(file).replace_extension(".idx")));
  }
}

TEST_CASE("face records: images and labels of MXNet's files are those that MXNet reads, and can be decoded") {
  for (const std::string file : face_files) {
    CAPTURE(file);
    auto listed = listed_records(file);
    std::erase_if(listed, [](const Listed& record) { return record.image_bytes == 0; });
    const FaceRecords faces(mxnet_file(file));
    REQUIRE(faces.size() == static_cast<std::int64_t>(listed.size()));
    std::int64_t copies = 0;
    for (std::int64_t i = 0; i < faces.size(); ++i) {
      const Listed& record = listed[static_cast<std::size_t>(i)];
      CHECK(faces.label(i) == static_cast<std::int64_t>(record.labels[0]));
      CHECK(faces.name(i) == mxnet_file(file).string() + ", record " + std::to_string(record.key));
      std::vector<std::uint8_t> buffer;
      const auto bytes = faces.image(i, buffer);
      copies += buffer.empty() ? 0 : 1;
      CHECK(crc32(bytes) == record.image_checksum);
      const Image image = decode_image(bytes, faces.name(i));
      CHECK(image.height == 8);
      CHECK(image.width == 8);
      CHECK(image.channels == 3);
    }
    if (file == "insightface.rec") CHECK(copies == 4);  // magic numbers in images and in an id
    if (file == "shuffled.rec") CHECK(copies == 1);
  }
  const FaceRecords faces(mxnet_file("insightface.rec"));
  CHECK(faces.classes() == 4);
  CHECK(faces.classes_without_images() == 1);
}

}  // namespace heddle::test
