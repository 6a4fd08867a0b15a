#include "experiments/training/evaluation/files/pair_file.h"

#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include "framework/files/atomic_file.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test::pair_file_test {

namespace {

/// Parses a text.
PairFile parsed(const std::string& text) {
  const Scratch folder;
  write_file_atomically(folder / "pairs.txt", text);
  return read_pair_file(folder / "pairs.txt");
}

/// The error for this list, without the folder's name.
std::string refused_list(const std::string& text) {
  const std::string message = message_of<InputError>([&] { (void)parsed(text); });
  return message.substr(message.rfind("pairs.txt"));
}

void check_pair(const NamedPair& pair, const std::string& first, const std::string& second, bool same,
                std::int64_t line) {
  CHECK(pair.first == first);
  CHECK(pair.second == second);
  CHECK(pair.same == same);
  CHECK(pair.line == line);
}

}  // namespace

TEST_CASE("LFW's pairs are read with and without a header, with one set and with several") {
  const std::string body = "Ann_Li\t1\t12\nAnn_Li\t3\tBo_Ek\t12345\n";
  for (const std::string header : {"", "1\n", "1\t1\n",
                                   "\xEF\xBB\xBF"
                                   "1\n",
                                   "1 \n\n"}) {
    CAPTURE(header);
    const PairFile file = parsed(header + body);
    REQUIRE(file.pairs.size() == 2);
    CHECK(file.lacks_endings);
    const std::int64_t first = 1 + std::count(header.begin(), header.end(), '\n');
    check_pair(file.pairs[0], "Ann_Li/Ann_Li_0001", "Ann_Li/Ann_Li_0012", true, first);
    check_pair(file.pairs[1], "Ann_Li/Ann_Li_0003", "Bo_Ek/Bo_Ek_12345", false, first + 1);
  }
  CHECK(parsed("2\t1\n" + body + body).pairs.size() == 4);
  // Blanks instead of tabs, line ends of Windows, and a last line without an end.
  const PairFile other = parsed("2\r\nA 1 2\r\nA  3 4 \r\nA 1 B 2\r\nB 1 A 2");
  REQUIRE(other.pairs.size() == 4);
  check_pair(other.pairs[1], "A/A_0003", "A/A_0004", true, 3);
  check_pair(other.pairs[3], "B/B_0001", "A/A_0002", false, 5);
}

TEST_CASE("PLSC's pairs are two files and a label") {
  const PairFile file = parsed("faces of a/1.jpg\tb/2.png\t1\nc\t7\t0\n");
  REQUIRE(file.pairs.size() == 2);
  CHECK(!file.lacks_endings);
  check_pair(file.pairs[0], "faces of a/1.jpg", "b/2.png", true, 1);
  check_pair(file.pairs[1], "c", "7", false, 2);
}

TEST_CASE("a wrong list of pairs is refused with the line and the reason") {
  CHECK(refused_list("") == "pairs.txt: there are no pairs in it");
  CHECK(refused_list("\n \n") == "pairs.txt: there are no pairs in it");
  CHECK(refused_list("500\n") == "pairs.txt: there are no pairs in it");
  CHECK(refused_list("Ann_Li\n") == "pairs.txt: line 1: expected a pair or the number of pairs, got \"Ann_Li\"");
  CHECK(refused_list("0\nA\t1\t2\n") == "pairs.txt: line 1: expected a pair or the number of pairs, got \"0\"");
  CHECK(refused_list("99999999999999999999\n") ==
        "pairs.txt: line 1: expected a pair or the number of pairs, got \"99999999999999999999\"");
  CHECK(refused_list("A\t1\t2\nA\t1\tx\n") == "pairs.txt: line 2: expected the number of a photograph of A, got \"x\"");
  CHECK(refused_list("A\t1\t0\n") == "pairs.txt: line 1: expected the number of a photograph of A, got \"0\"");
  CHECK(refused_list("A\t1\t-2\n") == "pairs.txt: line 1: expected the number of a photograph of A, got \"-2\"");
  CHECK(refused_list("A\t1\t2\nA\t1\n") ==
        "pairs.txt: line 2: expected \"name i j\" or \"name i name j\", got \"A\\t1\"");
  CHECK(refused_list("A\t1\t2\nA\t1\tB\t2\t3\n") ==
        "pairs.txt: line 2: expected \"name i j\" or \"name i name j\", got \"A\\t1\\tB\\t2\\t3\"");
  CHECK(refused_list("A\t1\t2\nA\t1\tA\t2\n") ==
        "pairs.txt: line 2: expected the names of two people, or \"name i j\", got \"A\\t1\\tA\\t2\"");
  CHECK(refused_list("a.jpg\tb.jpg\t2\n") == "pairs.txt: line 1: expected 1 for one person or 0 for two, got \"2\"");
  CHECK(refused_list("a.jpg\tb.jpg\t1\nA\t1\tB\t2\n") ==
        "pairs.txt: line 2: expected \"file file 1\" or \"file file 0\", got \"A\\t1\\tB\\t2\"");
  CHECK(refused_list(std::string("a.jpg\tb.jpg\t1\n\0\t1\t1\n", 20)) ==
        "pairs.txt: line 2: contains a zero byte, so this is not a text file");
  CHECK(refused_list("2\nA\t1\t2\nA\t1\tB\t2\n") == "pairs.txt: line 1: announces 1 x 2 x 2 pairs, but there are 2");
  CHECK(refused_list("1000000000\t1000000000\nA\t1\t2\n") ==
        "pairs.txt: line 1: announces 1000000000 x 2 x 1000000000 pairs, but there are 1");
  CHECK(
      refused_list("1\nA\t1\tB\t2\nA\t1\t2\n") ==
      "pairs.txt: line 2: expected a pair of one person: line 1 announces sets of 1 pairs of one person, then as many "
      "of two");
  const Scratch folder;
  CHECK(message_of<InputError>([&] { (void)read_pair_file(folder / "none.txt"); }) ==
        (folder / "none.txt").string() + ": cannot be read: No such file or directory");
}

TEST_CASE("missing images of pairs are refused with the line, the pair and the file") {
  const Scratch folder;
  const auto touch = [&](const char* name) {
    std::filesystem::create_directories((folder / name).parent_path());
    write_file_atomically(folder / name, "");
  };
  for (const char* const name : {"A/A_0001.jpg", "A/A_0002.png", "B/B_0007.jpeg"}) touch(name);
  const std::filesystem::path list = folder / "pairs.txt";
  write_file_atomically(list, "A\t1\t2\nA\t2\tB\t7\nB\t7\tA\t1\n");
  const PairedImages images = find_paired_images(list, folder / "");
  CHECK(images.files == std::vector<std::string>{(folder / "A/A_0001.jpg").string(), (folder / "A/A_0002.png").string(),
                                                 (folder / "B/B_0007.jpeg").string()});
  CHECK(images.pairs == std::vector<Pair>{{0, 1, true}, {1, 2, false}, {2, 0, false}});

  write_file_atomically(list, "A\t1\t2\nA\t2\tB\t8\n");
  CHECK(message_of<InputError>([&] { (void)find_paired_images(list, folder / ""); }) ==
        fmt::format("{}: line 2: the pair of A/A_0002 and B/B_0008: there is no file {}.jpg, .jpeg or .png",
                    list.string(), (folder / "B/B_0008").string()));
  write_file_atomically(list, "A/A_0001.jpg\tA\t1\n");
  CHECK(message_of<InputError>([&] { (void)find_paired_images(list, folder / ""); }) ==
        fmt::format("{}: line 1: the pair of A/A_0001.jpg and A: there is no file {}", list.string(),
                    (folder / "A").string()));
  CHECK(message_of<InputError>([&] { (void)find_paired_images(list, folder / "none"); }) ==
        (folder / "none").string() + ": there is no such folder");
}

}  // namespace heddle::test::pair_file_test
