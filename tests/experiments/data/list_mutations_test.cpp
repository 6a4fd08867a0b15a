#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/files/class_weights.h"
#include "experiments/data/files/image_list.h"
#include "experiments/data/files/people_list.h"
#include "tests/support/files/mutations.h"
#include "tests/support/scratch.h"

namespace heddle::test {

using namespace std::string_literals;

namespace {

const std::string inserted = "\t\n 0129,\"\r.#\0\xef\xbb\xbf\xff"s;

/// A list that is overwritten for each input.
class OneList {
 public:
  std::string write(const std::string& text) const {
    rewrite(path(), text);
    return path();
  }
  std::string path() const { return (folder_ / "list.txt").string(); }

 private:
  Scratch folder_;
};

}  // namespace

TEST_CASE("image list: mutated lists are read or refused with their name") {
  const std::string plain = "a/1.jpg 0\nb c/2.jpg\t12\n\nd.png Ann Li\n";
  const std::string csv = "file,person,weight,more\na.jpg,7,1.5,\n\"b,\"\"c\"\".jpg\",Ann,0,x\n";
  const OneList list;
  check_mutations(4000, 0.1, "", [&](RandomStream& draws) {
    ImageListConfig config;
    const bool is_csv = draws.below(2) == 0;
    if (is_csv) {
      config.path_column = "file";
      config.label_column = "person";
      config.weight_column = "weight";
    }
    config.train = list.write(mutated(is_csv ? csv : plain, inserted, draws));
    config.min_images = static_cast<std::int64_t>(draws.below(3));
    const FileSet files = list_files(config);
    for (std::int64_t i = 0; i < files.train.size(); ++i) {
      REQUIRE(files.train.label(i) >= 0);
      REQUIRE(files.train.label(i) < files.classes);
    }
  });
}

TEST_CASE("class weights: mutated files are read or refused with their name") {
  const OneList list;
  check_mutations(2000, 0.3, list.path() + ": ", [&](RandomStream& draws) {
    ClassWeights weights(list.write(mutated("Ann 0.5\nBo Li\t2\n7 1e-3\n", inserted, draws)),
                         draws.below(2) == 0 ? ClassWeights::Names::texts : ClassWeights::Names::numbers);
    REQUIRE(weights.of("Ann") >= 0);
  });
}

TEST_CASE("people lists: mutated files are read or refused with their name") {
  const std::vector<std::string> lists = {"2\nAnn_Li\t3\nBo_Ek\t1\n", "2\n1\nAnn_Li\t3\n1\nBo_Ek\t1\n",
                                          "Ann_Li\nBo_Ek\n"};
  const OneList list;
  check_mutations(3000, 0.2, list.path() + ": ", [&](RandomStream& draws) {
    const std::vector<ListedPerson> people =
        read_people(list.write(mutated(lists[draws.below(lists.size())], inserted, draws)));
    REQUIRE(!people.empty());
  });
}

}  // namespace heddle::test
