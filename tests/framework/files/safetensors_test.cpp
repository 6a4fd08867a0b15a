#include "framework/files/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "framework/error.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::safetensors_test {
namespace {

namespace fs = std::filesystem;

/// A file with this header, its length in front, and `data_bytes` bytes of data.
std::string with_header(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::string text(sizeof size, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  return text + header + std::string(data_bytes, 'x');
}

/// The reader's error about a file with these contents, without the path in front.
std::string complaint(const Scratch& scratch, const std::string& contents) {
  const fs::path path = scratch / "a";
  std::ofstream(path, std::ios::binary) << contents;
  const std::string message = message_of<InputError>([&] { SafetensorsReader reader(path); });
  const std::string prefix = path.string() + ": ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

const std::vector<SafetensorsEntry> some_entries{{"conv1.weight", DType::f32, Shape{2, 3}},
                                                 {"step", DType::i64, Shape{}},
                                                 {"empty", DType::f16, Shape{0, 5}},
                                                 {"\xC3\xA9\"\n", DType::u8, Shape{3}}};

void write_some(const fs::path& path) {
  SafetensorsWriter writer(path, some_entries, {{"format", "heddle"}});
  const std::vector<float> weight{1, 2, 3, 4, 5, 6};
  const auto bytes = std::as_bytes(std::span(weight));
  writer.write(bytes.first(10));  // pieces need not end with an element
  writer.write(bytes.subspan(10));
  const std::int64_t step = -7;
  writer.write(std::as_bytes(std::span(&step, 1)));
  writer.write(std::as_bytes(std::span("abc", 3)));
  writer.commit();
}

TEST_CASE("a file written atomically replaces the old one and leaves no temporary") {
  const Scratch scratch;
  write_file_atomically(scratch / "a", "old");
  write_file_atomically(scratch / "a", "new");
  CHECK(read_file(scratch / "a", 100) == "new");
  CHECK(scratch.files() == 1);
}

TEST_CASE("an atomic file without commit leaves the old one and no temporary") {
  const Scratch scratch;
  write_file_atomically(scratch / "a", "old");
  {
    AtomicFile file(scratch / "a");
    file.write(std::string(1 << 20, 'x'));
    CHECK(read_file(scratch / "a", 100) == "old");
  }
  CHECK(read_file(scratch / "a", 100) == "old");
  CHECK(scratch.files() == 1);
}

TEST_CASE("two atomic files of one folder do not disturb each other, and names may be long") {
  const Scratch scratch;
  const std::string longest(255, 'n');
  AtomicFile first(scratch / "a");
  AtomicFile second(scratch / longest.c_str());
  second.write("second");
  first.write("first");
  second.commit();
  first.commit();
  CHECK(read_file(scratch / "a", 100) == "first");
  CHECK(read_file(scratch / longest.c_str(), 100) == "second");
}

TEST_CASE("errors of files name the path and the system's reason") {
  const Scratch scratch;
  const std::string absent = (scratch / "no/such").string();
  CHECK(message_of<InputError>([&] { write_file_atomically(absent, "x"); }) ==
        absent + ": cannot be written: No such file or directory");
  CHECK(message_of<InputError>([&] { read_file(absent, 1); }) ==
        absent + ": cannot be read: No such file or directory");
  fs::create_directories(scratch / "folder/inside");
  const std::string folder = (scratch / "folder").string();
  CHECK(message_of<InputError>([&] { write_file_atomically(folder, "x"); }) ==
        folder + ": cannot be written: Is a directory");
  const std::string pipe = (scratch / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of<InputError>([&] { write_file_atomically(pipe, "x"); }) ==
        pipe + ": cannot be written: it is not a regular file");
  CHECK(fs::is_fifo(pipe));
  fs::remove(pipe);
  CHECK(message_of<InputError>([&] { read_file(folder, 1); }) == folder + ": cannot be read: it is not a regular file");
  CHECK(scratch.files() == 1);
  const std::string file = (scratch / "a").string();
  write_file_atomically(file, "four");
  CHECK(message_of<InputError>([&] { read_file(file, 3); }) == file + ": has 4 bytes, expected at most 3");
}

TEST_CASE("safetensors: a written file reads back unchanged") {
  const Scratch scratch;
  write_some(scratch / "a");
  const SafetensorsReader reader(scratch / "a");
  CHECK(reader.entries() == some_entries);
  CHECK(reader.metadata() == SafetensorsMetadata{{"format", "heddle"}});
  std::vector<float> weight(6);
  reader.read(reader.index_of("conv1.weight"), std::as_writable_bytes(std::span(weight)));
  CHECK(weight == std::vector<float>{1, 2, 3, 4, 5, 6});
  reader.read(0, std::as_writable_bytes(std::span(weight)).first(8), 16);
  CHECK(weight == std::vector<float>{5, 6, 3, 4, 5, 6});
  std::int64_t step = 0;
  reader.read(reader.index_of("step"), std::as_writable_bytes(std::span(&step, 1)));
  CHECK(step == -7);
  std::string letters(3, ' ');
  reader.read(3, std::as_writable_bytes(std::span(letters)));
  CHECK(letters == "abc");
  reader.read(reader.index_of("empty"), {});
  CHECK(message_of<InputError>([&] { static_cast<void>(reader.index_of("bn1")); }) ==
        (scratch / "a").string() + ": has no tensor 'bn1'");
  CHECK_THROWS_AS(reader.read(1, std::as_writable_bytes(std::span(weight)), 0), Error);
}

TEST_CASE("safetensors: the header is padded so that the data begin at a multiple of 8, and no tensors is legal") {
  const Scratch scratch;
  for (std::size_t length = 0; length < 9; ++length) {
    SafetensorsWriter writer(scratch / "a", {{std::string(length, 'n'), DType::u8, Shape{1}}});
    writer.write(std::as_bytes(std::span("z", 1)));
    writer.commit();
    CHECK(fs::file_size(scratch / "a") % 8 == 1);
  }
  SafetensorsWriter(scratch / "a", {}).commit();
  CHECK(SafetensorsReader(scratch / "a").entries().empty());
}

TEST_CASE("safetensors: large data begin on a page, and read back unchanged") {
  const Scratch folder;
  const std::filesystem::path path = folder / "large.safetensors";
  const std::vector<std::byte> data(std::size_t{3} << 20, std::byte{7});
  {
    SafetensorsWriter writer(path, {{"x", DType::u8, {std::ssize(data)}}}, {});
    writer.write(data);
    writer.commit();
  }
  constexpr std::size_t page = 4096;
  CHECK(std::filesystem::file_size(path) == page + data.size());
  std::vector<std::byte> read(data.size());
  SafetensorsReader(path).read(0, read);
  CHECK((read == data));
}

TEST_CASE("safetensors: the writer refuses bad names and wrong numbers of bytes") {
  const Scratch scratch;
  const fs::path path = scratch / "a";
  const auto message = [&](const std::vector<SafetensorsEntry>& entries) {
    return message_of<InputError>([&] { SafetensorsWriter writer(path, entries); });
  };
  const SafetensorsEntry x{"x", DType::u8, Shape{2}};
  CHECK(message({x, x}) == path.string() + ": tensor name 'x' is taken");
  CHECK(message({{"__metadata__", DType::u8, Shape{}}}) == path.string() + ": tensor name '__metadata__' is taken");
  CHECK(message({{"\xFF", DType::u8, Shape{}}}) == path.string() + ": a tensor's name or the metadata are not UTF-8");
  SafetensorsWriter writer(path, {x});
  writer.write(std::as_bytes(std::span("z", 1)));
  CHECK_THROWS_WITH_AS(writer.commit(), (path.string() + ": 1 bytes of its tensors were not written").c_str(), Error);
  CHECK_THROWS_WITH_AS(writer.write(std::as_bytes(std::span("zz", 2))),
                       (path.string() + ": 1 bytes more than its tensors have").c_str(), Error);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("safetensors: every malformed field is an error that names the fault") {
  const Scratch scratch;
  const auto header = [&](const std::string& text, std::size_t data = 0) {
    return complaint(scratch, with_header(text, data));
  };
  const auto tensor = [&](const std::string& fields, std::size_t data = 4) {
    return header("{\"t\":{" + fields + "}}", data);
  };
  CHECK(complaint(scratch, "1234567") == "has 7 bytes, a safetensors file has at least 8");
  CHECK(complaint(scratch, std::string("\x03\0\0\0\0\0\0\0{}", 10)) == "the header's length is 3, only 2 bytes follow");
  CHECK(complaint(scratch, std::string(8, '\xFF')) ==
        "is not a safetensors file: it would have a header of 18446744073709551615 bytes, and at most 100000000 are "
        "allowed");
  CHECK(complaint(scratch, "PK\x03\x04zipped") ==
        "is a zip file, not a safetensors file; `heddle import` converts those of torch.save");
  CHECK(header("") == "the header does not begin with '{'");
  CHECK(header(" {}") == "the header does not begin with '{'");
  CHECK(header("[]") == "the header does not begin with '{'");
  CHECK(header("{}  ") == "no error");
  CHECK(header("{}x") == "the header is not JSON at its byte 3");
  CHECK(header("{\"a\":") == "the header is not JSON at its byte 6");
  CHECK(header("{\"\xFF\":1}") == "the header is not JSON at its byte 3");
  CHECK(header("{\"a\":3}") == "'a': expected an object, got a number");
  CHECK(header("{\"a\":null}") == "'a': expected an object, got null");
  CHECK(header("{\"a\":[]}") == "'a': expected an object, got a list");
  CHECK(header("{\"__metadata__\":{\"k\":1}}") == "__metadata__: 'k': expected a string, got a number");
  CHECK(header("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}") == "key 'k' appears twice");
  CHECK(header("{}", 3) == "3 bytes after the last tensor belong to no tensor");

  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  CHECK(tensor(good) == "no error");
  CHECK(tensor(good + ",\"dtype\":\"F32\"") == "key 'dtype' appears twice");
  CHECK(header("{\"t\":{" + good + "},\"t\":{" + good + "}}", 4) == "key 't' appears twice");
  CHECK(tensor(good + ",\"strides\":[1]") ==
        "tensor 't': unknown key 'strides': expected dtype, shape and data_offsets");
  CHECK(tensor("") == "tensor 't': dtype is missing");
  CHECK(tensor(R"("dtype":"F32","data_offsets":[0,4])") == "tensor 't': shape is missing");
  CHECK(tensor(R"("dtype":"F32","shape":[1])") == "tensor 't': data_offsets is missing");
  CHECK(tensor(R"("dtype":"F8_E4M3")") ==
        "tensor 't': unknown dtype 'F8_E4M3': expected F64, F32, BF16, F16, I64, I32, I8 or U8");
  CHECK(tensor(R"("dtype":4)") == "tensor 't': dtype: expected a string, got a number");
  CHECK(tensor(R"("shape":"1")") == "tensor 't': shape: expected a list of numbers, got a string");
  CHECK(tensor(R"("shape":{})") == "tensor 't': shape: expected a list of numbers, got an object");
  CHECK(tensor(R"("shape":[-1])") == "tensor 't': shape: expected an integer from 0 on, got a negative number");
  CHECK(tensor(R"("shape":[1.0])") ==
        "tensor 't': shape: expected an integer from 0 on, got a number that is not an integer below 2^64");
  CHECK(tensor(R"("shape":[[1]])") == "tensor 't': shape: expected an integer from 0 on, got a list");
  CHECK(tensor(R"("shape":[1,1,1,1,1,1,1])") == "tensor 't': shape: has more than 6 numbers");
  CHECK(tensor(R"("shape":[4294967296,4294967296])") == "tensor 't': shape: is too large");
  CHECK(tensor(R"("shape":[0,4294967296,4294967296])") == "tensor 't': shape: is too large");
  CHECK(tensor(R"("data_offsets":[0,4,8])") == "tensor 't': data_offsets: expected 2 numbers, got 3");
  const auto offsets = [&](const std::string& text) {
    return tensor(R"("dtype":"F32","shape":[1],"data_offsets":)" + text);
  };
  CHECK(offsets("[4,0]") == "tensor 't': data_offsets [4, 0] are not within the data's 4 bytes");
  CHECK(offsets("[0,5]") == "tensor 't': data_offsets [0, 5] are not within the data's 4 bytes");
  CHECK(offsets("[0,3]") == "tensor 't': f32[1] needs 4 bytes, data_offsets [0, 3] give 3");
  CHECK(offsets("[1,4]") == "tensor 't': its data begin at 1 and leave a gap after the previous data, which end at 0");
  CHECK(header("{\"s\":{" + good + "},\"t\":{" + good + "}}", 4) ==
        "tensor 't': its data begin at 0 and overlap the previous data, which end at 4");
  CHECK(tensor(good, 5) == "1 bytes after the last tensor belong to no tensor");
}

TEST_CASE("safetensors: deep nesting ends early, and a name from a file cannot steer a terminal") {
  const Scratch scratch;
  CHECK(complaint(scratch, with_header("{\"t\":{\"shape\":" + std::string(1'000'000, '['), 0)) ==
        "tensor 't': shape: expected an integer from 0 on, got a list");
  CHECK(complaint(scratch, with_header("{\"a\\u001b[31m" + std::string(200, 'b') + "\":1}", 0)) ==
        "'a?[31m" + std::string(74, 'b') + "...': expected an object, got a number");
}

}  // namespace
}  // namespace heddle::test::safetensors_test
