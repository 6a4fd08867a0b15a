#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "experiments/data/files/list_lines.h"
#include "framework/error.h"
#include "framework/scalars/random.h"
#include "tests/support/images/image_files.h"

namespace heddle::test {

namespace {

using Strings = std::vector<std::string>;

DataConfig list_config(const WrittenImages& files, const std::string& train, const std::string& test = "") {
  DataConfig config;
  config.type = DataType::image_list;
  files.write("train.txt", train);
  config.image_list.train = files.path("train.txt");
  if (!test.empty()) {
    files.write("test.txt", test);
    config.image_list.test = files.path("test.txt");
  }
  config.image_list.image = {1, 2, 2};
  return config;
}

Strings listed(const Dataset& data, Split split, const std::string& root) {
  Strings samples;
  for (std::int64_t i = 0; i < data.size(split); ++i)
    samples.push_back(std::to_string(data.label(split, i)) + " " + data.sample_name(split, i).substr(root.size() + 1));
  return samples;
}

void refuses_list(const DataConfig& config, const std::string& message) {
  CHECK_THROWS_WITH_AS(make_dataset(config, {1}), message.c_str(), InputError);
}

void write_pictures(const WrittenImages& files) {
  for (const char* name : {"a.pgm", "b b.pgm", "c.pgm", "d.pgm", "deep/e.pgm"}) files.picture(name, 'x');
}

}  // namespace

TEST_CASE("lists with blanks and with tabs give paths and labels, in their order") {
  const WrittenImages files;
  write_pictures(files);
  const auto blanks = make_dataset(list_config(files, "c.pgm 1\nb b.pgm  0\r\n\n  a.pgm 1  \n", "deep/e.pgm 0\n"), {1});
  CHECK(blanks->classes() == 2);
  CHECK(listed(*blanks, Split::train, files.path()) == Strings{"1 c.pgm", "0 b b.pgm", "1 a.pgm"});
  CHECK(listed(*blanks, Split::test, files.path()) == Strings{"0 deep/e.pgm"});
  CHECK(blanks->notes(0).empty());
  const auto tabs = make_dataset(list_config(files, "b b.pgm\tNew York\na.pgm\tAnn\n"), {1});
  CHECK(listed(*tabs, Split::train, files.path()) == Strings{"1 b b.pgm", "0 a.pgm"});
  CHECK(tabs->size(Split::test) == 0);
}

TEST_CASE("names are numbered in natural order, and people who are only tested follow") {
  const WrittenImages files;
  write_pictures(files);
  const auto data =
      make_dataset(list_config(files, "a.pgm p10\nc.pgm p9\nd.pgm p10\n", "deep/e.pgm p1\na.pgm p9\nc.pgm p0\n"), {1});
  CHECK(data->classes() == 2);
  CHECK(listed(*data, Split::train, files.path()) == Strings{"1 a.pgm", "0 c.pgm", "1 d.pgm"});
  CHECK(listed(*data, Split::test, files.path()) == Strings{"3 deep/e.pgm", "0 a.pgm", "2 c.pgm"});
}

TEST_CASE("numbers without a gap stay, others are mapped, and the mapping is reported") {
  const WrittenImages files;
  write_pictures(files);
  const auto dense =
      make_dataset(list_config(
                       files, "a.pgm 10\nc.pgm 2\n" +
                                  [] {
                                    std::string rest;
                                    for (const char* label : {"0", "1", "3", "4", "5", "6", "7", "8", "9"})
                                      rest += std::string("d.pgm ") + label + "\n";
                                    return rest;
                                  }()),
                   {1});
  CHECK(dense->label(Split::train, 0) == 10);
  CHECK(dense->label(Split::train, 1) == 2);
  CHECK(dense->notes(0).empty());
  const auto gaps = make_dataset(list_config(files, "a.pgm 007\nc.pgm 100\nd.pgm 7\n"), {1});
  CHECK(gaps->classes() == 2);
  CHECK(listed(*gaps, Split::train, files.path()) == Strings{"0 a.pgm", "1 c.pgm", "0 d.pgm"});
  CHECK(gaps->notes(0) ==
        Strings{"image list \"" + files.path("train.txt") + "\": 2 labels up to 100 become 0 to 1, in the same order"});
}

TEST_CASE("CSV gives the columns that are named, quotes included") {
  const WrittenImages files;
  write_pictures(files);
  files.picture("q\"u,o.pgm", 'x');
  DataConfig config = list_config(files,
                                  "\xEF\xBB\xBF"
                                  "id,file,person\r\n1,a.pgm,Ann\r\n2,\"q\"\"u,o.pgm\",\"Bo, Jr\"\r\n");
  config.image_list.path_column = "file";
  config.image_list.label_column = "person";
  CHECK(listed(*make_dataset(config, {1}), Split::train, files.path()) == Strings{"0 a.pgm", "1 q\"u,o.pgm"});
  const std::string list = files.path("train.txt");
  config.image_list.label_column = "persons";
  refuses_list(config, list + ": line 1: no column \"persons\"; did you mean \"person\"?");
  config.image_list.label_column = "";
  refuses_list(config,
               "data.label_column: expected the name of a column: a CSV file needs path_column and label_column");
  const auto refuses_csv = [&](const std::string& text, const std::string& message) {
    DataConfig other = list_config(files, text);
    other.image_list.path_column = "p";
    other.image_list.label_column = "l";
    refuses_list(other, list + ": " + message);
  };
  refuses_csv("p,l\na.pgm\n", "line 2: expected 2 fields as in line 1, got 1");
  refuses_csv("p,l\n,1\n", "line 2: no path");
  refuses_csv("p,l\na.pgm,\n", "line 2: no label");
  refuses_csv("p,l\n\"a.pgm,1\n", "line 2: field 1 has no closing quote");
  refuses_csv("p,l\n\"a\".pgm,1\n", "line 2: field 1 continues after its closing quote");
  refuses_csv("p,l\na\".pgm,1\n", "line 2: a quote inside field 1, which is not in quotes");
  refuses_csv("p,l\n", "there is no image in it");
}

TEST_CASE("paths begin at the list's folder, at root, or at the file system's") {
  const WrittenImages files;
  write_pictures(files);
  DataConfig config = list_config(files, "e.pgm 0\n" + files.path("a.pgm") + " 1\n");
  config.image_list.root = files.path("deep");
  const auto data = make_dataset(config, {1});
  CHECK(data->sample_name(Split::train, 0) == files.path("deep/e.pgm"));
  CHECK(data->sample_name(Split::train, 1) == files.path("a.pgm"));
}

TEST_CASE("a list that cannot be used is refused, and the message names file and line") {
  const WrittenImages files;
  write_pictures(files);
  const std::string list = files.path("train.txt");
  refuses_list(list_config(files, "\n"), list + ": there is no image in it");
  refuses_list(list_config(files, "a.pgm 0\nb.pgm\n"), list + ": line 2: expected a path and a label, got \"b.pgm\"");
  refuses_list(list_config(files, "a.pgm 0\nc.pgm 0\n"),
               "image list \"" + list + "\": 1 person with training images; at least 2 are needed");
  refuses_list(list_config(files, "a.pgm 0\nnone.pgm 1\n"), "image \"" + files.path("none.pgm") + "\": no such file");
  refuses_list(list_config(files, std::string(100'000, 'a')),
               list + ": line 1: is longer than 65536 bytes, so this is not a list");
  DataConfig config = list_config(files, "a.pgm 0\nc.pgm 1\nd.pgm 1\nd.pgm 2\nd.pgm 2\n", "a.pgm 0\nc.pgm 1\n");
  config.image_list.min_images = 2;
  const auto data = make_dataset(config, {1});
  CHECK(data->classes() == 2);
  CHECK(listed(*data, Split::test, files.path()) == Strings{"0 c.pgm"});
  CHECK(data->notes(0).front() ==
        "image list \"" + list + "\": 1 person with fewer than 2 images is left out (1 image)");
}

TEST_CASE("a damaged list of images causes nothing worse than an InputError") {
  const WrittenImages files;
  RandomStream draws({22}, Purpose::test, 0, 4);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const bool is_csv = i % 2 == 0;
    std::string text = is_csv ? "p,l\n\"a\"\"b\",1\nc.pgm,x\n" : "a.pgm 1\nb b.pgm\t2\nc.pgm 3\n";
    for (std::uint64_t changes = 1 + draws.below(4); changes > 0; --changes)
      text[draws.below(text.size())] = i % 4 < 2 ? static_cast<char>(draws.next_u32()) : "\",\n\t "[draws.below(5)];
    files.write("list.txt", text);
    try {
      read_list(files.path("list.txt"), is_csv ? ListColumns{"p", "l"} : ListColumns{}, [](const ListedSample& sample) {
        CHECK(sample.line > 0);
        CHECK(!sample.path.empty());
        CHECK(!sample.label.empty());
      });
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 300);
}

}  // namespace heddle::test
