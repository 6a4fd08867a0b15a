#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "experiments/data/files/name_pattern.h"
#include "experiments/data/files/people_list.h"
#include "framework/error.h"
#include "framework/scalars/random.h"
#include "tests/support/images/image_files.h"

namespace heddle::test {

namespace {

DataConfig folder_config(const WrittenImages& files, FolderSplit split) {
  DataConfig config;
  config.type = DataType::image_folder;
  config.image_folder.path = files.path();
  config.image_folder.image = {1, 2, 2};
  config.image_folder.split = split;
  return config;
}

/// The samples of a split as "label name", with names relative to the folder.
std::vector<std::string> samples_of(const Dataset& data, Split split, const std::string& root) {
  std::vector<std::string> samples;
  for (std::int64_t i = 0; i < data.size(split); ++i)
    samples.push_back(std::to_string(data.label(split, i)) + " " + data.sample_name(split, i).substr(root.size() + 1));
  return samples;
}

void refuses_data(const DataConfig& config, const std::string& message) {
  CHECK_THROWS_WITH_AS(make_dataset(config, {1}), message.c_str(), InputError);
}

void refuses_people(const WrittenImages& files, const std::string& text, const std::string& message) {
  files.write("people.txt", text);
  const std::string whole = files.path("people.txt") + ": " + message;
  CHECK_THROWS_WITH_AS(read_people(files.path("people.txt")), whole.c_str(), InputError);
}

using Names = std::vector<std::string>;

/// Three people with one, two and four photographs.
void write_three(const WrittenImages& files) {
  files.picture("Ann/1.pgm", 'a');
  for (const char* name : {"Bo/1.pgm", "Bo/2.pgm", "Cy/1.pgm", "Cy/2.pgm", "Cy/10.pgm", "Cy/3.pgm"})
    files.picture(name, 'b');
}

}  // namespace

TEST_CASE("a share of each person's photographs is for training, at least one") {
  const WrittenImages files;
  write_three(files);
  DataConfig config = folder_config(files, FolderSplit::share);
  config.image_folder.train_share = 0.5;
  const auto data = make_dataset(config, {1});
  CHECK(samples_of(*data, Split::train, files.path()) ==
        Names{"0 Ann/1.pgm", "1 Bo/1.pgm", "2 Cy/1.pgm", "2 Cy/2.pgm"});
  CHECK(samples_of(*data, Split::test, files.path()) == Names{"1 Bo/2.pgm", "2 Cy/3.pgm", "2 Cy/10.pgm"});
  CHECK(data->notes(0).empty());
  config.image_folder.train_share = 1;
  CHECK(make_dataset(config, {1})->size(Split::train) == 7);
  CHECK(make_dataset(config, {1})->size(Split::test) == 0);
}

TEST_CASE("without a split all photographs are for training") {
  const WrittenImages files;
  write_three(files);
  const auto data = make_dataset(folder_config(files, FolderSplit::number), {1});
  CHECK(data->classes() == 3);
  CHECK(data->size(Split::train) == 7);
  CHECK(data->size(Split::test) == 0);
}

TEST_CASE("people with too few photographs are left out, counted and reported") {
  const WrittenImages files;
  write_three(files);
  files.write("Dee/notes.txt", "no photograph");
  DataConfig config = folder_config(files, FolderSplit::number);
  config.image_folder.train_per_identity = 1;
  config.image_folder.min_images = 2;
  const auto data = make_dataset(config, {1});
  CHECK(data->classes() == 2);
  CHECK(data->label(Split::train, 0) == 0);
  CHECK(data->sample_name(Split::train, 0) == files.path("Bo/1.pgm"));
  CHECK(data->notes(0) ==
        Names{"image folder \"" + files.path() + "\": 2 people with fewer than 2 images are left out (1 image)"});
  config.image_folder.min_images = 4;
  refuses_data(config, "image folder \"" + files.path() + "\": 1 person with at least 4 images; at least 2 are needed");
}

TEST_CASE("listed people are for training or for testing, with the labels that follow, and others are not read") {
  const WrittenImages files;
  write_three(files);
  files.write("Dee/1.pgm", "broken, and not listed");
  files.write("train.txt", "2\nCy\t4\nAnn\t1\n");
  files.write("test.txt", "Bo\r\n\n");
  DataConfig config = folder_config(files, FolderSplit::people);
  config.image_folder.people = files.path("train.txt");
  const auto alone = make_dataset(config, {1});
  CHECK(alone->classes() == 2);
  CHECK(alone->size(Split::test) == 0);
  config.image_folder.test_people = files.path("test.txt");
  const auto data = make_dataset(config, {1});
  CHECK(data->classes() == 2);
  CHECK(samples_of(*data, Split::train, files.path()) ==
        Names{"0 Ann/1.pgm", "1 Cy/1.pgm", "1 Cy/2.pgm", "1 Cy/3.pgm", "1 Cy/10.pgm"});
  CHECK(samples_of(*data, Split::test, files.path()) == Names{"2 Bo/1.pgm", "2 Bo/2.pgm"});
  CHECK(data->notes(0).empty());

  files.write("train.txt", "2\nCy\t5\nAnn\t1\n");
  CHECK(make_dataset(config, {1})->notes(0) ==
        Names{files.path("train.txt") + ": 1 person has a different number of images in image folder \"" +
              files.path() + "\": \"Cy\" has 4 images instead of 5"});
  files.write("train.txt", "Cy\nBo\n");
  refuses_data(config, files.path("test.txt") + ": line 1: \"Bo\" is also in " + files.path("train.txt"));
  files.write("train.txt", "Cy\nAnna\n");
  refuses_data(config, files.path("train.txt") + ": line 2: \"Anna\" is not in image folder \"" + files.path() + "\"");
  files.write("train.txt", "Cy\n");
  refuses_data(config, "image folder \"" + files.path() + "\": 1 person with training images; at least 2 are needed");
  config.image_folder.people = files.path("none.txt");
  refuses_data(config, files.path("none.txt") + ": cannot be read: No such file or directory");
}

TEST_CASE("lists of people have LFW's formats or plain names, and must be consistent") {
  const WrittenImages files;
  files.write("people.txt",
              "\xEF\xBB\xBF"
              "0002\n7\n\n0010");
  const auto plain = read_people(files.path("people.txt"));
  REQUIRE(plain.size() == 3);
  CHECK(plain[0].name == "0002");
  CHECK(plain[2].name == "0010");
  CHECK(plain[2].line == 4);
  CHECK(!plain[2].images);
  files.write("people.txt", "2\n1\nAnn\t3\n2\nBo\t1\nCy\t2\n");
  const auto folds = read_people(files.path("people.txt"));
  REQUIRE(folds.size() == 3);
  CHECK(folds[2].name == "Cy");
  CHECK(folds[2].images == 2);

  refuses_people(files, "", "there is no name in it");
  refuses_people(files, "2\nAnn\t1\n", "2 people announced, 1 found");
  refuses_people(files, "1\nAnn\t1\nBo\t1\n", "line 3: more people than the 1 that the file announces");
  refuses_people(files, "2\nAnn\t1\nBo\n", "line 3: expected a name, a tab and a number of images, got \"Bo\"");
  refuses_people(files, "2\nAnn\t1\nBo\t-1\n",
                 "line 3: expected a name, a tab and a number of images, got \"Bo\\t-1\"");
  refuses_people(files, "Ann\t1\n", "line 1: expected a number of people or folds, got \"Ann\\t1\"");
  refuses_people(files, "2\n1\nAnn\t3\n", "expected a number of people, got the end of the file");
  refuses_people(files, "Ann\nBo\nAnn\n", "line 3: \"Ann\" is listed twice");
  refuses_people(files, "999999999999999999\nAnn\t1\n", "999999999999999999 people announced, 1 found");
  refuses_people(files, std::string("Ann\0\n", 5), "line 1: contains a zero byte, so this is not a text file");
  refuses_people(files, "Ann\n" + std::string(70'000, 'x'),
                 "line 2: is longer than 65536 bytes, so this is not a list");
}

TEST_CASE("a pattern finds the shortest name of a person, and a hostile one takes bounded time") {
  const auto identity = [](const char* pattern, const std::string& name) {
    return std::string(NamePattern(pattern).identity(name).value_or("nothing"));
  };
  CHECK(identity("{identity}_*", "0002_c1s1_000451_03.jpg") == "0002");
  CHECK(identity("{identity}_*", "-1_c1s1_000401_03.jpg") == "-1");
  CHECK(identity("{identity}_####.*", "Aaron_Eckhart_0001.jpg") == "Aaron_Eckhart");
  CHECK(identity("*-{identity}.png", "cam3-7.png") == "7");
  CHECK(identity("{identity}", "all.png") == "all.png");
  CHECK(identity("{identity}_*", "0002.jpg") == "nothing");
  CHECK(identity("{identity}_*", "_0002.jpg") == "nothing");
  CHECK(identity("x{identity}", "0002.jpg") == "nothing");
  std::string hostile = "{identity}";
  for (int i = 0; i < 100; ++i) hostile += "*a";
  CHECK(identity((hostile + "b").c_str(), std::string(250, 'a')) == "nothing");
  CHECK_THROWS_WITH_AS(NamePattern("*_*"),
                       "data.pattern: expected {identity} once, as in \"{identity}_*\", got \"*_*\"", InputError);
  CHECK_THROWS_WITH_AS(NamePattern("{identity}{identity}"),
                       "data.pattern: expected {identity} once, as in \"{identity}_*\", got \"{identity}{identity}\"",
                       InputError);
}

TEST_CASE("a flat folder has the people in the names of its files") {
  const WrittenImages files;
  for (const char* name : {"0010_c1.pgm", "0002_c1.pgm", "0002_c2.pgm", "0010_c3.pgm", "thumb.pgm"})
    files.picture(name, 'm');
  files.write("readme.txt", "skipped");
  DataConfig config = folder_config(files, FolderSplit::number);
  config.image_folder.pattern = "{identity}_*";
  config.image_folder.train_per_identity = 1;
  const auto data = make_dataset(config, {1});
  CHECK(samples_of(*data, Split::train, files.path()) == Names{"0 0002_c1.pgm", "1 0010_c1.pgm"});
  CHECK(samples_of(*data, Split::test, files.path()) == Names{"0 0002_c2.pgm", "1 0010_c3.pgm"});
  CHECK(data->notes(0) ==
        Names{"image folder \"" + files.path() + "\": 1 name does not fit \"{identity}_*\" and is left out"});
  config.image_folder.train_per_identity = 2;
  refuses_data(config, "image folder \"" + files.path() +
                           "\", person \"0002\": 2 images, but 2 for training (train_per_identity) and at least 1 for "
                           "testing are needed");
  config.image_folder.pattern = "x{identity}";
  refuses_data(config,
               "image folder \"" + files.path() + "\": expected images whose names fit \"x{identity}\", found none");
}

TEST_CASE("keys of one kind of split are refused with another kind") {
  const WrittenImages files;
  DataConfig config = folder_config(files, FolderSplit::number);
  config.image_folder.test_per_identity = 1;
  refuses_data(config,
               "data.test_per_identity: expected train_per_identity beside it: without it all images are for training");
  config.image_folder.test_per_identity = 0;
  config.image_folder.split = FolderSplit::share;
  refuses_data(config, "data.train_share: expected a number > 0 with split \"share\"");
  config.image_folder.split = FolderSplit::people;
  refuses_data(config, "data.people: expected a file with split \"people\"");
  config.image_folder.train_per_identity = 3;
  refuses_data(config, "data.train_per_identity: has no effect with split \"people\": it belongs to \"number\"");
  config.image_folder.train_per_identity = 0;
  config.image_folder.train_share = 0.5;
  refuses_data(config, "data.train_share: has no effect with split \"people\": it belongs to \"share\"");
  config.image_folder.train_share = 0;
  config.image_folder.split = FolderSplit::number;
  config.image_folder.train_per_identity = 1;
  config.image_folder.test_people = "x";
  refuses_data(config, "data.test_people: has no effect with split \"number\": it belongs to \"people\"");
}

TEST_CASE("a damaged list of people causes nothing worse than an InputError") {
  const WrittenImages files;
  RandomStream draws({21}, Purpose::test, 0, 3);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = "2\n2\nAnn\t3\nBo\t1\n1\nCy\t2\n";
    for (std::uint64_t changes = 1 + draws.below(4); changes > 0; --changes)
      text[draws.below(text.size())] = i % 2 == 0 ? static_cast<char>(draws.next_u32()) : "\n\t019"[draws.below(5)];
    if (i % 3 == 0) text.resize(draws.below(text.size()));
    files.write("people.txt", text);
    try {
      const bool is_empty = read_people(files.path("people.txt")).empty();
      CHECK(!is_empty);
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 300);
}

}  // namespace heddle::test
