#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/training/evaluation/files/bin_file.h"
#include "experiments/training/evaluation/files/labelled_file.h"
#include "experiments/training/evaluation/files/pair_file.h"
#include "experiments/training/evaluation/files/template_file.h"
#include "framework/files/atomic_file.h"
#include "tests/support/files/mutations.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/scratch.h"

namespace heddle::test {

using namespace std::string_literals;

namespace {

/// A folder with the empty images a.png to d.png, to which lists are written.
class ListFolder {
 public:
  ListFolder() {
    for (const char* const name : {"a.png", "b.png", "c.png", "d.png"}) (void)write(name, "");
  }
  std::filesystem::path write(const char* name, const std::string& text) const {
    rewrite(folder_ / name, text);
    return folder_ / name;
  }
  std::filesystem::path path() const { return folder_ / ""; }

 private:
  Scratch folder_;
};

}  // namespace

TEST_CASE("evaluation: mutated verification sets (.bin) are read or refused with their name") {
  std::vector<std::string> files;
  const auto bins = test::source_folder() / "tests/experiments/training/evaluation/files/bins";
  for (const auto& entry : std::filesystem::directory_iterator(bins)) files.push_back(read_file(entry.path(), 1 << 20));
  std::sort(files.begin(), files.end());  // a folder has no order
  const ListFolder folder;
  const std::filesystem::path path = folder.path() / "a.bin";
  check_mutations(4000, 0.4, path.string(), [&](RandomStream& draws) {
    const std::string& whole = files[draws.below(files.size())];
    (void)folder.write("a.bin", mutated(whole, "(]l.tabeRpqhg)NIKMJ0\x80\x93\x94\x85\x86\x87"s, draws));
    const BinFile file(path);
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < file.images(); ++i)
      for (const std::uint8_t byte : file.image(i)) sum += byte;
    REQUIRE(sum < std::uint64_t{1} << 32);
    REQUIRE(file.images() == static_cast<std::int64_t>(2 * file.pairs().size()));
  });
}

TEST_CASE("evaluation: mutated lists of pairs are read or refused with their name") {
  const std::string lists[] = {"1\t2\nA\t1\t2\nA\t3\t4\nA\t1\tB\t2\nB\t1\tA\t2\n", "a.png\tb.png\t1\nc d\te\t0\n",
                               "2\nA 1 2\nA 3 4\nA 1 B 2\nB 1 A 2\n"};
  const ListFolder folder;
  check_mutations(3000, 0.3, folder.path().string() + "pairs.txt: ", [&](RandomStream& draws) {
    const std::string& whole = lists[draws.below(std::size(lists))];
    const PairFile file = read_pair_file(folder.write("pairs.txt", mutated(whole, "\t\n 019\r\0\xff"s, draws)));
    REQUIRE(!file.pairs.empty());
  });
}

TEST_CASE("evaluation: mutated lists of templates are read or refused with their name") {
  const ListFolder folder;
  const std::string images = "a.png 30 1\nb.png 30 1\nc.png 7 2\n";
  const std::string compared = "7 30 1\n30 7 0\n";
  check_mutations(3000, 0.3, folder.path().string(), [&](RandomStream& draws) {
    const bool are_pairs = draws.below(2) == 0;
    const std::string text = mutated(are_pairs ? compared : images, "\t\n 019\r\0\xff"s, draws);
    const auto list = folder.write("t.txt", are_pairs ? images : text);
    const auto pairs = folder.write("p.txt", are_pairs ? text : compared);
    (void)read_template_set(list, pairs, folder.path());
  });
}

TEST_CASE("evaluation: mutated lists for identification are read or refused with their name") {
  const ListFolder folder;
  check_mutations(2000, 0.3, folder.path().string(), [&](RandomStream& draws) {
    const auto people = folder.write("g.txt", mutated("a.png\tAnn\nb.png\tBo\n", "\t\n abp.\r\0\xff"s, draws));
    const auto others = folder.write("d.txt", mutated("c.png\nd.png\n", "\t\n cdp.\r\0\xff"s, draws));
    (void)read_identification_set(people, people, draws.below(2) == 0 ? others : "", folder.path());
  });
}

}  // namespace heddle::test
