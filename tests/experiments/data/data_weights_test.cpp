// Weights of images and of people: what files give, and what is refused.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "experiments/data/data_config.h"
#include "framework/error.h"
#include "tests/support/files/source_folder.h"
#include "tests/support/images/image_files.h"

namespace heddle::test::data_weights_test {
namespace {

using Strings = std::vector<std::string>;
using Doubles = std::vector<double>;

Doubles weights_of(const Dataset& data) {
  Doubles weights;
  for (std::int64_t i = 0; i < data.size(Split::train); ++i) weights.push_back(data.weight(i));
  return weights;
}

void refuses(const DataConfig& config, const std::string& message) {
  CHECK_THROWS_WITH_AS(make_dataset(config, {1}), message.c_str(), InputError);
}

void write_pictures(const WrittenImages& files) {
  for (const char* name : {"Ann/1.pgm", "Ann/2.pgm", "Bo/1.pgm", "Bo/2.pgm", "Bo/3.pgm", "Cy/1.pgm", "Cy/2.pgm"})
    files.picture(name, 'x');
}

DataConfig folder_config(const WrittenImages& files, const std::string& weights) {
  files.write("../weights.txt", weights);
  DataConfig config;
  config.type = DataType::image_folder;
  config.image_folder.path = files.path();
  config.image_folder.image = {1, 2, 2};
  config.image_folder.train_per_identity = 1;
  config.image_folder.class_weights = files.path("../weights.txt");
  return config;
}

/// A CSV list with a column of weights.
DataConfig list_config(const WrittenImages& files, const std::string& train) {
  files.write("../train.csv", train);
  DataConfig config;
  config.type = DataType::image_list;
  config.image_list.train = files.path("../train.csv");
  config.image_list.root = files.path();
  config.image_list.image = {1, 2, 2};
  config.image_list.path_column = "file";
  config.image_list.label_column = "person";
  config.image_list.weight_column = "weight";
  return config;
}

std::string folder_title(const WrittenImages& files) {
  return "image folder \"" + files.path() + "\"";
}

}  // namespace

TEST_CASE("a folder's training images have the weights of their people") {
  const WrittenImages files;
  write_pictures(files);
  DataConfig config = folder_config(files, "Bo 2.5\r\n\nAnn\t0\n");
  const auto data = make_dataset(config, {1});
  CHECK(data->has_weights());
  CHECK(weights_of(*data) == Doubles{0, 2.5, 1});
  CHECK(data->notes(0) == Strings{folder_title(files) + ": 1 person with training images has no weight in " +
                                  files.path("../weights.txt") + ", which means 1"});
  config.image_folder.split = FolderSplit::share;
  config.image_folder.train_per_identity = 0;
  config.image_folder.train_share = 0.9;
  CHECK(weights_of(*make_dataset(config, {1})) == Doubles{0, 0, 2.5, 2.5, 2.5, 1, 1});
  config.image_folder.class_weights.clear();
  CHECK(!make_dataset(config, {1})->has_weights());
  CHECK(make_dataset(config, {1})->weight(0) == 1);
}

TEST_CASE("weights stay with people when others are left out or only tested") {
  const WrittenImages files;
  write_pictures(files);
  files.picture("Abe/1.pgm", 'x');
  DataConfig config = folder_config(files, "Abe 9\nBo 2\nAnn 3\nCy 4\n");
  config.image_folder.min_images = 2;
  CHECK(weights_of(*make_dataset(config, {1})) == Doubles{3, 2, 4});
  files.write("../train.txt", "Cy\nBo\n");
  files.write("../test.txt", "Ann\n");
  files.write("../weights.txt", "Ann 5\nCy 4\n");
  config.image_folder.min_images = 0;
  config.image_folder.train_per_identity = 0;
  config.image_folder.split = FolderSplit::people;
  config.image_folder.people = files.path("../train.txt");
  config.image_folder.test_people = files.path("../test.txt");
  const auto data = make_dataset(config, {1});
  CHECK(weights_of(*data) == Doubles{1, 1, 1, 4, 4});
  CHECK(data->size(Split::test) == 2);
}

TEST_CASE("weights of people of the folder who are in neither list are accepted") {
  const WrittenImages files;
  write_pictures(files);
  DataConfig config = folder_config(files, "Ann 2\nBo 3\nCy 4\n");
  files.write("../people.txt", "Ann\nBo\n");
  config.image_folder.split = FolderSplit::people;
  config.image_folder.train_per_identity = ImageFolderConfig{}.train_per_identity;
  config.image_folder.people = files.path("../people.txt");
  CHECK(weights_of(*make_dataset(config, {1})) == Doubles{2, 2, 3, 3, 3});
}

TEST_CASE("a broken image that is left out takes its weight with it") {
  const WrittenImages files;
  write_pictures(files);
  files.write("Bo/1.pgm", "P5 2 2 255\n");
  DataConfig config = folder_config(files, "Ann 3\nBo 2\nCy 4\n");
  for (int i = 4; i < 20; ++i) files.picture("Cy/" + std::to_string(i) + ".pgm", 'x');
  config.image_folder.on_broken = OnBroken::skip;
  CHECK(weights_of(*make_dataset(config, {1})) == Doubles{3, 4});
}

TEST_CASE("a list's images have the weight of their line times that of the person") {
  const WrittenImages files;
  write_pictures(files);
  DataConfig config = list_config(files,
                                  "weight,file,person\n0.5,Ann/1.pgm,Ann\n2,Bo/1.pgm,Bo\n\"3e-1\",Ann/2.pgm,Ann\n"
                                  "0,Bo/2.pgm,Bo\n");
  CHECK(weights_of(*make_dataset(config, {1})) == Doubles{0.5, 2, 0.3, 0});
  files.write("../weights.txt", "Ann 4\nBo 1\n");
  config.image_list.class_weights = files.path("../weights.txt");
  const auto data = make_dataset(config, {1});
  CHECK(weights_of(*data) == Doubles{2, 2, 1.2, 0});
  CHECK(data->notes(0).empty());
  // A test list needs no weights.
  files.write("../test.csv", "file,person\nBo/3.pgm,Bo\n");
  config.image_list.test = files.path("../test.csv");
  CHECK(make_dataset(config, {1})->size(Split::test) == 1);
  config = list_config(files, "weight,file,person\n1,Ann/1.pgm,Ann\n1.0,Bo/1.pgm,Bo\n");
  CHECK(!make_dataset(config, {1})->has_weights());
}

TEST_CASE("labels that are numbers are the people of a file of weights, with or without leading zeros") {
  const WrittenImages files;
  write_pictures(files);
  DataConfig config = list_config(files, "file,person,weight\nAnn/1.pgm,007,1\nBo/1.pgm,10,1\nBo/2.pgm,10,2\n");
  files.write("../weights.txt", "7 3\n0010 0.5\n");
  config.image_list.class_weights = files.path("../weights.txt");
  CHECK(weights_of(*make_dataset(config, {1})) == Doubles{3, 0.5, 1});
  files.write("../weights.txt", "7 3\n007 1\n");
  refuses(config, files.path("../weights.txt") + ": line 2: \"007\" is listed twice");
}

TEST_CASE("a file of records has the weights of its labels") {
  const WrittenImages files;
  DataConfig config{.type = DataType::recordio};
  config.recordio.train = (source_folder() / "tests/experiments/data/recordio_files/insightface.rec").string();
  config.recordio.image = {3, 8, 8};
  CHECK(!make_dataset(config, {1})->has_weights());
  files.write("weights.txt", "1 2.5\n");
  config.recordio.class_weights = files.path("weights.txt");
  const auto data = make_dataset(config, {1});
  CHECK(data->has_weights());
  for (std::int64_t i = 0; i < data->size(Split::train); ++i)
    CHECK(data->weight(i) == (data->label(Split::train, i) == 1 ? 2.5 : 1));
  CHECK(data->notes(0).back().find(" no weight in " + files.path("weights.txt") + ", which means 1") !=
        std::string::npos);
  files.write("weights.txt", "1 1\n");
  CHECK(!make_dataset(config, {1})->has_weights());
  files.write("weights.txt", "1 2\n99 1\n");
  refuses(config, files.path("weights.txt") + ": line 2: \"99\" is not a person of \"" + config.recordio.train + "\"");
}

TEST_CASE("weights that cannot be used are refused, and the message names file and line") {
  const WrittenImages files;
  write_pictures(files);
  const std::string list = files.path("../train.csv");
  for (const char* weight : {"-1", "nan", "inf", "-inf", "1e999", "0x1p3", "1.5 ", "two", "+1"}) {
    CAPTURE(weight);
    refuses(list_config(files, std::string("file,person,weight\nAnn/1.pgm,Ann,1\nBo/1.pgm,Bo,") + weight + "\n"),
            list + ": line 3: expected a weight, a finite number >= 0, got \"" + weight + "\"");
  }
  refuses(list_config(files, "file,person,weight\nAnn/1.pgm,Ann,\n"), list + ": line 2: no weight");
  refuses(list_config(files, "file,person,weights\nAnn/1.pgm,Ann,1\n"),
          list + ": line 1: no column \"weight\"; did you mean \"weights\"?");
  DataConfig plain = list_config(files, "Ann/1.pgm 0\n");
  plain.image_list.path_column.clear();
  plain.image_list.label_column.clear();
  refuses(plain, "data.weight_column: only a CSV file, with path_column and label_column, has weights of images");

  const std::string weights = files.path("../weights.txt");
  for (const char* weight : {"-0.5", "NaN", "Infinity", "x"})
    refuses(folder_config(files, std::string("Ann 1\nBo ") + weight + "\n"),
            weights + ": line 2: expected a weight, a finite number >= 0, got \"" + weight + "\"");
  refuses(folder_config(files, "Ann\n"), weights + ": line 1: expected a person and a weight, got \"Ann\"");
  refuses(folder_config(files, "Ann 1\nAnn 1\n"), weights + ": line 2: \"Ann\" is listed twice");
  refuses(folder_config(files, "Ann 1\nDan 1\nEve 2\n"),
          weights + ": line 2: \"Dan\" is not a person of " + folder_title(files));
  refuses(folder_config(files, "\n"), weights + ": there is no weight in it");
  DataConfig missing = folder_config(files, "Ann 1\n");
  missing.image_folder.class_weights = "/nowhere/weights.txt";
  refuses(missing, "/nowhere/weights.txt: cannot be read: No such file or directory");
}

}  // namespace heddle::test::data_weights_test
