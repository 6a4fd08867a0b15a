// NumPy's files of a matrix.
#include "experiments/export/npy.h"

#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "framework/error.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

/// A file of version 1.0 with this description and as many f32 zeros.
std::string npy(const std::string& description, std::size_t numbers) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(description.size() & 0xFF);
  bytes += static_cast<char>(description.size() >> 8);
  return bytes + description + std::string(4 * numbers, '\0');
}

TEST_CASE("a .npy that was written in pieces is read in pieces") {
  const Scratch folder;
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  NpyWriter writer(folder / "a.npy", 3, 2);
  writer.append(std::span(values).first(4));
  CHECK_THROWS_WITH_AS(writer.finish(), ((folder / "a.npy").string() + ": 2 numbers are missing").c_str(), Error);
  writer.append(std::span(values).subspan(4));
  CHECK_THROWS_WITH_AS(writer.append(values), ((folder / "a.npy").string() + ": more rows than were announced").c_str(),
                       Error);
  writer.finish();
  CHECK(folder.files() <= 1);  // under a temporary name, or none
  writer.commit();
  const NpyReader reader(folder / "a.npy");
  CHECK(reader.rows() == 3);
  CHECK(reader.columns() == 2);
  std::vector<float> read(4);
  reader.read(1, read);
  CHECK(read == std::vector<float>{3, 4, 5, 6});
}

TEST_CASE("other programs' orders and spaces in a header are read") {
  const Scratch folder;
  write_file_atomically(folder / "a.npy", npy("{\"shape\":(1,2),'fortran_order' : False,'descr':'<f4'}\n", 2));
  CHECK(NpyReader(folder / "a.npy").columns() == 2);
  std::string second = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", 2);
  second[6] = 2;  // version 2.0 has four bytes of length
  second.insert(10, 2, '\0');
  write_file_atomically(folder / "b.npy", second);
  CHECK(NpyReader(folder / "b.npy").rows() == 2);
}

TEST_CASE("a .npy of other contents is refused by what was expected and found") {
  const Scratch folder;
  const std::string file = (folder / "a.npy").string();
  const auto refused = [&](const std::string& bytes) {
    write_file_atomically(file, bytes);
    return message_of<InputError>([&] { NpyReader reader(file); });
  };
  const auto with = [](const std::string& type, const std::string& order, const std::string& shape) {
    return "{'descr': " + type + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  };
  CHECK(refused("") == file + ": is not a .npy file: it has 0 bytes");
  CHECK(refused("PK\x03\x04 a zip archive") == file + ": is not a .npy file");
  CHECK(refused(npy(with("'<f8'", "False", "(1, 2)"), 4)) ==
        file + ": expected elements '<f4' (f32), found \"<f8\": convert it with .astype('<f4')");
  CHECK(refused(npy(with("'<f4'", "True", "(1, 2)"), 2)) ==
        file + ": expected rows in C order, found Fortran order: convert it with numpy.ascontiguousarray");
  CHECK(refused(npy(with("'<f4'", "False", "(2,)"), 2)) ==
        file + ": expected a matrix [rows, features], found the shape (2)");
  CHECK(refused(npy(with("'<f4'", "False", "(0, 5)"), 0)) == file + ": its shape (0, 5) has no elements");
  CHECK(refused(npy(with("'<f4'", "False", "(4000000000000, 4000000000000)"), 6)) ==
        file + ": its shape (4000000000000, 4000000000000) does not fit the 24 bytes that follow its header");
  CHECK(refused(npy(with("'<f4'", "False", "(2, 2)"), 5)) ==
        file + ": its shape (2, 2) does not fit the 20 bytes that follow its header");
  CHECK(refused(npy("{'descr': [('a', '<f4')], 'shape': (1, 2)}", 2)) ==
        file + ": its header cannot be read: \"{'descr': [('a', '<f4')], 'shape': (1, 2)}\"");
  std::string bytes = npy(with("'<f4'", "False", "(1, 2)"), 2);
  bytes[6] = 4;
  CHECK(refused(bytes) == file + ": expected version 1 to 3 of NumPy's format, found 4");
  bytes[6] = 1;
  bytes[9] = 127;
  CHECK(refused(bytes).starts_with(file + ": its header claims 32"));
}

TEST_CASE("no mutation of a header makes the reader fail in another way") {
  const Scratch folder;
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", 2);
  for (std::size_t i = 0; i < good.size() - 8; ++i)
    for (const char c : {'\0', '(', '}', '\'', '9', '\xFF'}) {
      std::string bytes = good;
      bytes[i] = c;
      write_file_atomically(folder / "a.npy", bytes);
      try {
        const NpyReader reader(folder / "a.npy");
        CHECK(reader.rows() * reader.columns() == 2);
      } catch (const InputError&) {
      }
    }
}

}  // namespace
}  // namespace heddle::test
