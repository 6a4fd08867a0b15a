#include "experiments/training/evaluation/files/bin_file.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "framework/files/atomic_file.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::bin_file_test {

namespace {

using Bytes = std::vector<std::uint8_t>;

std::filesystem::path bins() {
  return test::source_folder() / "tests/experiments/training/evaluation/files/bins";
}

/// The images of make_bins.py.
std::vector<Bytes> expected_images() {
  Bytes every(256);
  std::iota(every.begin(), every.end(), std::uint8_t{0});
  const std::string escapes = "\x89PNG\r\n\x1a\n'\"\\\\u0041\\x41";
  Bytes reversed{0xff, 0xd8};
  reversed.insert(reversed.end(), every.rbegin(), every.rend());
  return {every, {}, {escapes.begin(), escapes.end()}, reversed};
}

std::string u32(std::uint32_t value) {
  std::string text;
  for (int i = 0; i < 4; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// The error for a file with this pickle, without the folder.
std::string refused_pickle(const std::string& pickle) {
  const Scratch folder;
  const std::filesystem::path path = folder / "a.bin";
  write_file_atomically(path, pickle);
  const std::string message = message_of<InputError>([&] { const BinFile file(path); });
  return message.substr(std::min(message.find("a.bin"), message.size()));
}

}  // namespace

TEST_CASE("verification sets that Python 2 and 3 and NumPy 1 and 2 wrote are read, in every protocol") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(bins())) {
    CAPTURE(entry.path().string());
    const BinFile file(entry.path());
    const std::vector<Bytes> expected = expected_images();
    REQUIRE(file.images() == 4);
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto image = file.image(i);
      CHECK(Bytes(image.begin(), image.end()) == expected[static_cast<std::size_t>(i)]);
    }
    CHECK(file.pairs() == std::vector<Pair>{{0, 1, true}, {2, 3, false}});
    ++files;
  }
  CHECK(files == 30);
}

TEST_CASE("a file that is not a pickle is refused as such, whatever it begins with") {
  const std::string is_none =
      "a.bin: not a Python pickle, the format of verification sets such as InsightFace's lfw.bin: it begins with ";
  CHECK(refused_pickle("hello, this is no pickle\n") == is_none + "\"hello, this is n\"");
  CHECK(refused_pickle("version https://git-lfs.github.com/spec/v1\n") == is_none + "\"version https://\"");
  CHECK(refused_pickle("PK\x03\x04") == is_none + R"("PK\u0003\u0004")");
}

TEST_CASE("pickles that would execute something, or are truncated, are refused with the operation and the reason") {
  const std::string begin = "\x80\x02";
  // Pickles that would execute code in Python.
  CHECK(refused_pickle("cos\nsystem\n(S'true'\ntR.") ==
        "a.bin: byte 0: GLOBAL: os.system is not a function that images and labels are written with");
  CHECK(refused_pickle("\x80\x04\x8c\x05posix\x8c\x06system\x93)R.") ==
        "a.bin: byte 17: STACK_GLOBAL: posix.system is not a function that images and labels are written with");
  CHECK(refused_pickle("(ios\nsystem\n.") == "a.bin: byte 1: INST: does not make strings, lists or arrays");
  CHECK(refused_pickle(begin + "}.") == "a.bin: byte 2: EMPTY_DICT: does not make strings, lists or arrays");
  CHECK(refused_pickle(std::string("\x80\x04\x97.", 4)) ==
        "a.bin: byte 2: NEXT_BUFFER: does not make strings, lists or arrays");
  CHECK(refused_pickle("cnumpy\nndarray\n)R.") == "a.bin: byte 16: REDUCE: numpy.ndarray must not be called");
  CHECK(refused_pickle(begin + "\xFF.") == "a.bin: byte 2: the end: 0xff is not an operation of protocols 0 to 5");
  CHECK(refused_pickle("\x80\x06.") == "a.bin: byte 0: PROTO: expected a protocol from 0 to 5, got 6");
  // Truncated pickles, and pickles that announce more than they have.
  CHECK(refused_pickle("") == "a.bin: the file is empty");
  CHECK(refused_pickle(begin) == "a.bin: byte 2: the end: needs 1 bytes, but 0 are left");
  CHECK(refused_pickle(begin + "B" + u32(0xFFFFFFFF) + "abc") ==
        "a.bin: byte 2: BINBYTES: needs 4294967295 bytes, but 3 are left");
  CHECK(refused_pickle("\x80\x04\x8e" + u32(0) + u32(1) + "a") ==
        "a.bin: byte 2: BINBYTES8: needs 4294967296 bytes, but 1 are left");
  CHECK(refused_pickle("\x80\x04\x95" + u32(100) + u32(0) + "].") ==
        "a.bin: byte 2: FRAME: needs 100 bytes, but 2 are left");
  CHECK(refused_pickle(begin + "]r" + u32(0xFFFFFFFF) + ".") ==
        "a.bin: byte 3: LONG_BINPUT: memo 4294967295 is too high for a file of 9 bytes");
  CHECK(refused_pickle(begin + "h\x05.") == "a.bin: byte 2: BINGET: memo 5 was never stored");
  CHECK(refused_pickle("g-1\n.") == "a.bin: byte 0: GET: memo 18446744073709551615 was never stored");
  CHECK(refused_pickle("S'abc.") == "a.bin: byte 0: STRING: its line has no end");
  CHECK(refused_pickle("S'abc\n.") == "a.bin: byte 0: STRING: expected a string in quotes, got \"'abc\"");
  CHECK(refused_pickle("S'\\x4'\n.") == "a.bin: byte 0: STRING: expected 2 hexadecimal digits, got \"4\"");
  CHECK(refused_pickle("V\\u00e\n.") == "a.bin: byte 0: UNICODE: expected 4 hexadecimal digits, got \"00e\"");
  CHECK(refused_pickle("I1x\n.") == "a.bin: byte 0: INT: expected an integer of 64 bits, got \"1x\"");
  // Operations whose arguments are not on the stack.
  CHECK(refused_pickle(".") == "a.bin: byte 0: STOP: the stack is empty");
  CHECK(refused_pickle("t.") == "a.bin: byte 0: TUPLE: there is no mark on the stack");
  CHECK(refused_pickle("](a.") == "a.bin: byte 2: APPEND: the stack is empty");
  CHECK(refused_pickle("NNa.") == "a.bin: byte 2: APPEND: expected a list, got None");
  CHECK(refused_pickle(begin + "NNR.") == "a.bin: byte 4: REDUCE: expected a function, got None");
  CHECK(refused_pickle(std::string(65, '(') + ".") == "a.bin: byte 64: MARK: more than 64 nested marks");
  CHECK(refused_pickle(std::string(99'999, ')') + ".") ==
        "a.bin: byte 78036: EMPTY_TUPLE: more than 78036 values in 100000 bytes");
}

TEST_CASE("arrays whose parts do not agree are refused") {
  const std::string type = "cnumpy\ndtype\n(S'u1'\nI0\nI1\ntR";
  const auto array = [&](const std::string& shape, const std::string& bytes, const std::string& element = "") {
    return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n" + shape +
           (element.empty() ? type : element) + "I00\nS'" + bytes + "'\ntb.";
  };
  const auto reason = [&](const std::string& pickle) {
    const std::string message = refused_pickle(pickle);
    return message.substr(message.find(": ", message.find("byte")) + 2);
  };
  CHECK(reason(array("(I2\nt", "abc")) == "BUILD: an array of 2 elements of type u1 has 3 bytes");
  CHECK(reason(array("(I-2\nt", "abc")) == "BUILD: an array has 3 bytes, but an axis of -2");
  CHECK(reason(array("(I4294967296\nI4294967296\nt", "abc")) ==
        "BUILD: an array has 3 bytes, but an axis of 4294967296");
  CHECK(reason(array("(I3\nt", "abc", "cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR")) ==
        "REDUCE: numpy.dtype: expected an array of integers, got one of type \"f8\"");
  CHECK(reason(array("N", "abc")) == "BUILD: expected a tuple, got None");
  CHECK(refused_pickle("((l" + array("(I1\nI3\nt", "abc").substr(0, array("(I1\nI3\nt", "abc").size() - 1) +
                       "aI01\nt.") ==
        "a.bin, image 0: expected an encoded image as a vector of u1, got an array of u1 with 2 axes");
}

TEST_CASE("a pickle that is not a verification set is refused") {
  CHECK(refused_pickle("N.") == "a.bin: expected a pair of images and labels, got None");
  CHECK(refused_pickle("(NNNt.") == "a.bin: expected a pair of images and labels, got a tuple of 3");
  CHECK(refused_pickle("(N(lt.") == "a.bin: expected a list of images, got None");
  CHECK(refused_pickle("((lNt.") == "a.bin: expected a list of labels, got None");
  CHECK(refused_pickle("((l(lt.") == "a.bin: expected two images for each label, got 0 images and 0 labels");
  CHECK(refused_pickle("((S'a'\nl(I01\nlt.") == "a.bin: expected two images for each label, got 1 images and 1 labels");
  CHECK(refused_pickle("((S'a'\nI1\nl(I01\nlt.") == "a.bin, image 1: expected bytes or an array of u1, got an integer");
  CHECK(refused_pickle("((S'a'\nS'b'\nl(I2\nlt.") == "a.bin: label 0: expected True or False");
  // A list that contains itself.
  CHECK(refused_pickle("((lp0\ng0\na(I01\nlt.") == "a.bin, image 0: expected bytes or an array of u1, got a list");
  CHECK(refused_pickle("(lp0\ng0\nag0\na.") == "a.bin, image 0: expected bytes or an array of u1, got a list");
}

}  // namespace heddle::test::bin_file_test
