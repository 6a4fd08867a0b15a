// Lists of templates and lists for identification.
#include <filesystem>

#include <doctest/doctest.h>

#include "experiments/training/evaluation/files/column_reader.h"
#include "experiments/training/evaluation/files/labelled_file.h"
#include "experiments/training/evaluation/files/template_file.h"
#include "experiments/training/evaluation/protocol/identification.h"
#include "framework/files/atomic_file.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

/// A folder with the images a.png to d.png and lists.
class ListFiles {
 public:
  ListFiles() {
    for (const char* const name : {"a.png", "b.png", "c.png", "d.png"}) (void)write(name, "");
  }
  std::filesystem::path write(const char* name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  std::filesystem::path folder() const { return folder_ / ""; }
  std::string path(const char* name) const { return (folder_ / name).string(); }

 private:
  Scratch folder_;
};

}  // namespace

TEST_CASE("templates are read with their images, each once, and pairs by the templates' numbers") {
  const ListFiles files;
  const auto templates = files.write("t.txt", "a.png 30 1\nb.png 30 1\nc.png 7 2\na.png 7 3\n");
  const TemplateSet set = read_template_set(templates, files.write("p.txt", "7 30 1\n30 7 0\r\n"), files.folder());
  CHECK(set.files == std::vector<std::string>{files.path("a.png"), files.path("b.png"), files.path("c.png")});
  CHECK(set.templates == 2);
  REQUIRE(set.images.size() == 4);
  CHECK(set.images[2].group == 1);
  CHECK(set.images[3].image == 0);
  CHECK(set.images[3].medium == 3);
  CHECK(set.pairs == std::vector<Pair>{{1, 0, true}, {0, 1, false}});
}

TEST_CASE("wrong lists of templates are refused with the line") {
  const ListFiles files;
  const auto refused = [&](const std::string& templates, const std::string& pairs) {
    const auto list = files.write("t.txt", templates);
    const auto compared = files.write("p.txt", pairs);
    const std::string message =
        message_of<InputError>([&] { (void)read_template_set(list, compared, files.folder()); });
    return message.substr(std::min(files.folder().string().size(), message.size()));
  };
  CHECK(refused("a.png 1\n", "") == "t.txt: line 1: expected \"image template medium\", got \"a.png 1\"");
  CHECK(refused("a.png 1 1\nb.png x 1\n", "") == "t.txt: line 2: expected the number of a template, got \"x\"");
  CHECK(refused("a.png 1 -1\n", "") == "t.txt: line 1: expected the number of a medium, got \"-1\"");
  CHECK(refused("e.png 1 1\n", "") == "t.txt: line 1: there is no file " + files.path("e.png"));
  CHECK(refused("a.png 1 1\n", "1 2 1\n") == "p.txt: line 1: template 2 has no image in " + files.path("t.txt"));
  CHECK(refused("a.png 1 1\n", "1 1 2\n") == "p.txt: line 1: expected 1 for one person or 0 for two, got \"2\"");
  CHECK(refused("a.png 1 1\n", "1 1\n") == "p.txt: line 1: expected \"template template 1\", got \"1 1\"");
}

TEST_CASE("galleries, distractors and probes are read in this order, with one label for each person") {
  const ListFiles files;
  const auto gallery = files.write("g.txt", "a.png\tAnn Li\nb.png\tBo\n");
  const auto probes = files.write("p.txt", "c.png\tBo\nd.png\tCy\n");
  const IdentificationSet set =
      read_identification_set(gallery, probes, files.write("d.txt", "d.png\nd.png\n"), files.folder());
  CHECK(set.gallery == 4);
  CHECK(set.labels == std::vector<std::int64_t>{0, 1, distractor, distractor, 1, 2});
  CHECK(set.files.back() == files.path("d.png"));
  CHECK(read_identification_set(gallery, probes, "", files.folder()).gallery == 2);
  const auto refused = [&](const std::string& text) {
    const auto list = files.write("g.txt", text);
    return message_of<InputError>([&] { (void)read_identification_set(list, probes, "", files.folder()); });
  };
  CHECK(refused("a.png\n") == files.path("g.txt") + ": line 1: expected \"image person\", got \"a.png\"");
  CHECK(refused("a.png A\n\ne.png A\n") == files.path("g.txt") + ": line 3: there is no file " + files.path("e.png"));
  CHECK(refused("a.png Dee\n") == files.path("p.txt") + ": none of 2 probes shows a person in " + files.path("g.txt"));
}

TEST_CASE("a list is read in pieces, and a line without an end is refused") {
  const ListFiles files;
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += fmt::format("image_{} {}\n", i, i % 7);
  ColumnReader list(files.write("long.txt", text));
  std::int64_t lines = 0;
  while (list.next()) {
    REQUIRE(list.columns().size() == 2);
    REQUIRE(list.columns()[0] == fmt::format("image_{}", lines));
    REQUIRE(list.number() == ++lines);
  }
  CHECK(lines == 200'000);
  ColumnReader endless(files.write("endless.txt", "a b\n" + std::string(3'000'000, 'x')));
  CHECK(endless.next());
  CHECK(message_of<InputError>([&] { (void)endless.next(); }) ==
        files.path("endless.txt") + ": line 2: is longer than 65536 bytes, so this is not a list");
}

}  // namespace heddle::test
