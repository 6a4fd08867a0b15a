// `heddle data`: packing, showing and checking images.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/data/image.h"
#include "experiments/data/recordio/face_records.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/images/drawn_faces.h"
#include "tests/support/program/called.h"

namespace heddle::test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Calls `heddle data` in a folder, whose name the texts then lack.
class DataFolder {
 public:
  DataFolder() { write_people(folder_ / "faces", {3, 1, 5}); }

  fs::path operator/(const std::string& name) const { return folder_ / name.c_str(); }
  Called data(const std::string& what, std::vector<std::string> arguments) const {
    std::string before;
    for (std::string& argument : arguments) {
      const bool is_value = before == "--set" || before == "--split" || before == "--on-broken";
      before = argument;
      if (!is_value && !argument.starts_with("--")) argument = (*this / argument).string();
    }
    arguments.insert(arguments.begin(), {"data", what});
    Called called = call(arguments);
    for (std::string* text : {&called.out, &called.err})
      for (std::size_t at = 0; (at = text->find(prefix())) != std::string::npos;) text->erase(at, prefix().size());
    return called;
  }
  /// The error of a call that refuses its input.
  std::string error(const std::string& what, const std::vector<std::string>& arguments) const {
    const Called called = data(what, arguments);
    CHECK(called.code == 2);
    CHECK(called.out.empty());
    return called.err;
  }
  std::string write(const Json& experiment) const {
    write_file_atomically(*this / "e.json", experiment.dump());
    return "e.json";
  }

 private:
  std::string prefix() const { return (folder_ / "").string(); }

  Scratch folder_;
};

Json folder_experiment(const DataFolder& folder) {
  Json json = Json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"dp": 2},
    "data": {"type": "image_folder", "image": [1, 8, 8], "split": "share", "train_share": 1,
             "augmentation": {"flip": 0.5}},
    "model": {"type": "mlp", "hidden": [12], "embedding": 5},
    "head": {"classes": 3}, "train": {"batch": 4, "steps": 3, "save": false}})");
  json["data"]["path"] = (folder / "faces").string();
  return json;
}

Json losses_of(const DataFolder& folder, const Json& experiment) {
  const Called called =
      call({"run", (folder / folder.write(experiment)).string(), "--json", "--out", (folder / "out").string()});
  CAPTURE(called.err);
  REQUIRE(called.code == 0);
  return summary(called)["variants"][0]["loss_per_step"];
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a folder that is packed trains to the same losses, bit for bit") {
  const DataFolder folder;
  const Called packed = folder.data("pack", {"faces", "a.rec"});
  CHECK(packed.code == 0);
  CHECK(packed.err.empty());
  CHECK(packed.out == "a.rec: 9 images of 3 people, 0.0 MiB\n");
  CHECK(read_file(folder / "property", 100) == "3,8,8");
  Json experiment = folder_experiment(folder);
  const Json losses = losses_of(folder, experiment);
  REQUIRE(losses.size() == 3);
  experiment["data"] = {{"type", "recordio"},
                        {"image", {1, 8, 8}},
                        {"train", (folder / "a.rec").string()},
                        {"augmentation", {{"flip", 0.5}}}};
  CHECK(losses_of(folder, experiment) == losses);

  // The bytes of the files, in their order; shuffled, the same ones in another order, which the seed decides.
  const auto people_and_bytes = [&](const char* name) {
    const FaceRecords records(folder / name);
    std::vector<std::uint8_t> buffer;
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < records.size(); ++i) {
      const auto bytes = records.image(i, buffer);
      all.push_back(std::to_string(records.label(i)) + std::string(bytes.begin(), bytes.end()));
    }
    return all;
  };
  const std::vector<std::string> in_order = people_and_bytes("a.rec");
  CHECK(in_order[3] == "1" + face_as_jpeg(1, 0));
  for (const auto& [name, seed] : {std::pair("b.rec", "0"), {"c.rec", "0"}, {"d.rec", "7"}})
    REQUIRE(folder.data("pack", {"faces", name, "--shuffle", std::string("--seed=") + seed}).code == 0);
  const std::vector<std::string> shuffled = people_and_bytes("b.rec");
  CHECK(shuffled != in_order);
  CHECK(std::is_permutation(shuffled.begin(), shuffled.end(), in_order.begin(), in_order.end()));
  CHECK(people_and_bytes("c.rec") == shuffled);
  CHECK(people_and_bytes("d.rec") != shuffled);
}

TEST_CASE("pack takes an experiment's split and min_images, lists, people of a list, and another .rec") {
  const DataFolder folder;
  Json experiment = folder_experiment(folder);
  experiment["data"].update(Json{{"train_share", 0.6}, {"min_images", 2}});
  const std::string file = folder.write(experiment);
  const Called packed = folder.data("pack", {file, "train.rec"});
  CHECK(packed.out == "train.rec: 5 images of 2 people, 0.0 MiB\n");
  CHECK(packed.err == "image folder \"faces\": 1 person with fewer than 2 images is left out (1 image)\n");
  CHECK(folder.data("pack", {file, "test.rec", "--split", "test"}).out == "test.rec: 3 images of 2 people, 0.0 MiB\n");
  CHECK(folder.error("pack", {file, "more.rec", "--set", "data.min_images=0"})
            .ends_with("heddle: property: announces 2 classes for the .rec files beside it, and these images have 3; "
                       "pack them into another folder, or replace it with --force if those files are not needed\n"));
  CHECK(folder.data("pack", {file, "more.rec", "--set", "data.min_images=0", "--force"}).code == 0);
  CHECK(read_file(folder / "property", 100) == "3,8,8");

  experiment["data"]["path"] = "faces";
  fs::create_directories(folder / "y");
  CHECK(folder.data("pack", {folder.write(experiment), "y/a.rec", "--set", "data_folder=" + (folder / "").string()})
            .out == "y/a.rec: 5 images of 2 people, 0.0 MiB\n");

  fs::create_directories(folder / "x");
  write_file_atomically(folder / "people.txt", "p0\np2\n");
  CHECK(folder.data("pack", {"faces", "x/a.rec", "--people", "people.txt"}).out ==
        "x/a.rec: 8 images of 2 people, 0.0 MiB\n");
  CHECK(folder.data("pack", {"x/a.rec", "x/b.rec", "--shuffle"}).out == "x/b.rec: 8 images of 2 people, 0.0 MiB\n");
  write_file_atomically(folder / "list.txt", "faces/p2/0.jpg 0\nfaces/p1/0.jpg 1\nfaces/p2/1.jpg 0\n");
  CHECK(folder.data("pack", {"list.txt", "x/c.rec"}).out == "x/c.rec: 3 images of 2 people, 0.0 MiB\n");
}

TEST_CASE("pack encodes images that are not JPEG, and names or leaves out what is broken") {
  const DataFolder folder;
  write_new_file(folder / "faces/p1/1.pgm", face_as_pgm(1, 1));
  CHECK(folder.data("pack", {"faces", "a.rec"}).out == "a.rec: 10 images of 3 people, 0.0 MiB; 1 encoded as JPEG\n");
  {
    const FaceRecords records(folder / "a.rec");
    std::vector<std::uint8_t> buffer;
    const Image image = decode_image(records.image(4, buffer), "image");
    const Image face = drawn_face(1, 1);
    REQUIRE(image.pixels.size() == face.pixels.size());
    for (std::size_t i = 0; i < face.pixels.size(); ++i) CHECK(std::abs(image.pixels[i] - face.pixels[i]) < 16);
  }
  write_new_file(folder / "faces/p2/9.jpg", "no image");
  const std::string reason = "not a PGM, PPM, PNG or JPEG file (its first bytes are 6e 6f 20 69)";
  CHECK(folder.error("pack", {"faces", "b.rec"}) == "heddle: image \"faces/p2/9.jpg\": " + reason + "\n");
  CHECK(files_in(folder / "") == std::vector<std::string>{"a.idx", "a.rec", "faces", "property"});
  const Called skipped = folder.data("pack", {"faces", "b.rec", "--on-broken", "skip"});
  CHECK(skipped.out == "b.rec: 10 images of 3 people, 0.0 MiB; 1 encoded as JPEG; 1 broken image left out\n");
  CHECK(skipped.err == "left out: faces/p2/9.jpg: " + reason + "\n");
  // As the experiment says.
  Json experiment = folder_experiment(folder);
  experiment["data"]["on_broken"] = "skip";
  CHECK(folder.data("pack", {folder.write(experiment), "c.rec"}).code == 0);
  CHECK(folder.error("pack", {"e.json", "d.rec", "--on-broken", "stop"}).find("first bytes") != std::string::npos);
  write_new_file(folder / "faces/p2/8.jpg", "");
  CHECK(
      folder.error("pack", {"faces", "b.rec", "--on-broken", "skip", "--force"}) ==
      "heddle: data: 2 of 12 images cannot be used, more than a tenth, and are not skipped; one is faces/p2/8.jpg: the "
      "file is empty\n");
}

TEST_CASE("show counts images, people, sizes and formats, and draws a sheet") {
  const DataFolder folder;
  write_new_file(folder / "faces/p1/1.pgm", face_as_pgm(1, 1));
  const Called shown = folder.data("show", {"faces", "--sheet", "sheet.png"});
  CHECK(shown.code == 0);
  CHECK(shown.out ==
        "image folder \"faces\": 10 images of 3 people\n\n"
        "                   min  median  max\n"
        "images per person    2       3    5\n"
        "width (pixels)       8       8    8\n"
        "height (pixels)      8       8    8\n\n"
        "images per person   people\n"
        "                1        0\n"
        "              2-3        2  ########################################\n"
        "              4-7        1  ####################\n\n"
        "formats:  PGM or PPM 1  JPEG 9\n");
  const Image sheet = load_image((folder / "sheet.png").string());
  CHECK(sheet.width == 8 * 96);
  CHECK(sheet.height == 2 * 96);
  CHECK(sheet.channels == 3);
  CHECK(folder.data("show", {"faces", "--sheet", "sheet.jpg"}).err ==
        "heddle: --sheet sheet.jpg: expected a file that ends in .png\n");
  const std::string drawn = read_file(folder / "sheet.png", 1 << 20);
  REQUIRE(folder.data("show", {"faces", "--sheet", "sheet.png"}).code == 0);
  CHECK(read_file(folder / "sheet.png", 1 << 20) == drawn);

  write_new_file(folder / "faces/p0/9.jpg", "no image");
  const Json json = Json::parse(folder.data("show", {"faces", "--json"}).out)[0];
  CHECK(json["split"] == "all");
  CHECK(json["images"] == 11);
  CHECK(json["people"] == 3);
  CHECK(json["broken"] == 1);
  CHECK(json["formats"] == Json{{"PGM or PPM", 1}, {"JPEG", 9}});
  CHECK(json["histogram"][1] == Json{{"least", 2}, {"most", 3}, {"people", 1}});
  CHECK(folder.data("show", {"faces"}).out.ends_with("1 image is broken; `heddle data check` lists it\n"));

  write_file_atomically(folder / "lfw.bin",
                        bin_file({face_as_jpeg(0, 0), face_as_jpeg(0, 1), face_as_jpeg(1, 0), "x"}, {true, false}));
  const Called pairs = folder.data("show", {"lfw.bin"});
  CHECK(pairs.err == "verification set \"lfw.bin\": 2 pairs, 1 of them of one person\n");
  CHECK(pairs.out.starts_with("verification set \"lfw.bin\": 4 images\n"));
  Json experiment = folder_experiment(folder);
  experiment["data"]["train_share"] = 0.5;
  const Json splits = Json::parse(folder.data("show", {folder.write(experiment), "--json"}).out);
  REQUIRE(splits.size() == 2);
  CHECK(splits[1]["split"] == "testing");
  CHECK(splits[0]["images"].get<int>() + splits[1]["images"].get<int>() == 11);
}

TEST_CASE("check names every broken image and counts the reasons, with exit code 2") {
  const DataFolder folder;
  const Called sound = folder.data("check", {"faces"});
  CHECK(sound.code == 0);
  CHECK(sound.out == "image folder \"faces\": 9 images, none is broken\n");
  write_new_file(folder / "faces/p0/8.jpg", "no image");
  write_new_file(folder / "faces/p0/9.jpg", "A second");
  write_new_file(folder / "faces/p1/9.jpg", "");
  const Called broken = folder.data("check", {"faces"});
  CHECK(broken.code == 2);
  CHECK(broken.err.empty());
  CHECK(broken.out ==
        "image folder \"faces\": 12 images, 3 of them cannot be used\n\n"
        "reason                                                              images\n"
        "not a PGM, PPM, PNG or JPEG file (its first bytes are .. .. .. ..)       2\n"
        "the file is empty                                                        1\n\n"
        "faces/p0/8.jpg: not a PGM, PPM, PNG or JPEG file (its first bytes are 6e 6f 20 69)\n"
        "faces/p0/9.jpg: not a PGM, PPM, PNG or JPEG file (its first bytes are 41 20 73 65)\n"
        "faces/p1/9.jpg: the file is empty\n");
  for (int i = 0; i < 120; ++i) write_new_file(folder / fmt::format("faces/p3/{}.jpg", i), "");
  CHECK(folder.data("check", {"faces"}).out.ends_with("faces/p3/96.jpg: the file is empty\nand 23 more\n"));
  const Json json = Json::parse(folder.data("check", {"faces", "--json"}).out);
  CHECK(json["images"] == 132);
  CHECK(json["broken"] == 123);
  CHECK(json["first"].size() == 100);
  CHECK(json["first"][2] == Json{{"name", "faces/p1/9.jpg"}, {"reason", "the file is empty"}});
}

TEST_CASE("check finds images that are too small for the experiment's crop") {
  const DataFolder folder;
  write_new_file(folder / "faces/p0/9.pgm", "P5 8 7 255\n" + std::string(56, 'x'));
  Json experiment = folder_experiment(folder);
  experiment["data"]["preprocessing"]["crop"] = 8;
  const Called checked = folder.data("check", {folder.write(experiment)});
  CHECK(checked.code == 2);
  CHECK(checked.out.find("10 images, 1 of them cannot be used\n") != std::string::npos);
  CHECK(checked.out.ends_with(
      "faces/p0/9.pgm: data.preprocessing.crop of 8 x 8 pixels is larger than the image of 7 x 8\n"));
  CHECK(folder.data("check", {"e.json", "--set", "data.preprocessing.crop=7"}).code == 0);
  CHECK(folder.data("check", {"faces"}).code == 0);
}

TEST_CASE("check finds labels out of range, broken records and broken images of pairs") {
  const DataFolder folder;
  REQUIRE(folder.data("pack", {"faces", "a.rec"}).code == 0);
  write_file_atomically(folder / "property", "2,8,8");
  const Called labels = folder.data("check", {"a.rec"});
  CHECK(labels.code == 2);
  CHECK(labels.out.find("9 images, 5 of them cannot be used\n") != std::string::npos);
  CHECK(labels.out.find(
            "\na.rec, record 5: label 2 is not one of the 2 classes that the file \"property\" announces\n") !=
        std::string::npos);
  CHECK(folder.error("pack", {"a.rec", "b.rec"}) ==
        "heddle: a.rec, record 5: label 2 is not one of the 2 classes that the file \"property\" announces\n");
  write_file_atomically(folder / "lfw.bin", bin_file({face_as_jpeg(0, 0), "x"}, {true}));
  const Called pairs = folder.data("check", {"lfw.bin"});
  CHECK(pairs.code == 2);
  CHECK(pairs.out.ends_with("lfw.bin, image 1: not a PGM, PPM, PNG or JPEG file (its first bytes are 78)\n"));
}

TEST_CASE("one person is enough to show, check and pack, and too few to train") {
  const DataFolder folder;
  fs::remove_all(folder / "faces/p0");
  fs::remove_all(folder / "faces/p1");
  write_file_atomically(folder / "list.txt", "faces/p2/0.jpg 7\n");
  CHECK(folder.data("show", {"faces"}).out.starts_with("image folder \"faces\": 5 images of 1 person\n"));
  CHECK(folder.data("check", {"faces"}).out == "image folder \"faces\": 5 images, none is broken\n");
  CHECK(folder.data("show", {"list.txt"}).out.starts_with("image list \"list.txt\": 1 image of 1 person\n"));
  CHECK(folder.data("check", {"list.txt"}).out == "image list \"list.txt\": 1 image, none is broken\n");
  CHECK(folder.data("pack", {"faces", "a.rec"}).out == "a.rec: 5 images of 1 person, 0.0 MiB\n");
  Json experiment = folder_experiment(folder);
  CHECK(folder.data("check", {folder.write(experiment)}).code == 0);
  const Called trained = call({"run", (folder / "e.json").string(), "--out", (folder / "out").string()});
  CHECK(trained.code == 2);
  CHECK(trained.err.ends_with("1 person with training images; at least 2 are needed\n"));
  CHECK(folder.error("show", {"e.json", "--set", "data.min_images=6"}) ==
        "heddle: image folder \"faces\": 0 people with at least 6 images; at least 1 is needed\n");
}

TEST_CASE("data refuses what is not there, not known or not to be replaced") {
  const DataFolder folder;
  write_file_atomically(folder / "empty.rec", "");
  write_file_atomically(folder / "noise", std::string("no\0text", 7));
  fs::create_directory(folder / "nobody");
  write_file_atomically(folder / "lfw.bin", bin_file({face_as_jpeg(0, 0), "x"}, {true}));
  for (const char* what : {"show", "check"}) {
    CHECK(folder.error(what, {"none"}) == "heddle: none: no such file or folder\n");
    CHECK(folder.error(what, {"empty.rec"}) == "heddle: empty.rec: the file is empty\n");
    CHECK(folder.error(what, {"nobody"}) ==
          "heddle: image folder \"nobody\": expected one folder for each person, found none\n");
  }
  CHECK(folder.error("pack", {"noise", "a.rec"}) ==
        "heddle: noise: unknown format: expected a folder of people, a list of images, a .rec, a .bin or an "
        "experiment (.json)\n");
  CHECK(folder.error("pack", {"lfw.bin", "a.rec"})
            .ends_with("heddle: verification set \"lfw.bin\": expected images of people: its pairs do not say who they "
                       "are\n"));
  CHECK(folder.error("pack", {"faces", "a"}) == "heddle: expected the name of a .rec to write, got a\n");
  CHECK(folder.error("pack", {"faces", "nowhere/a.rec"}) ==
        "heddle: nowhere/a.rec: cannot be written: No such file or directory\n");
  CHECK(folder.error("pack", {"faces", "a.rec", "--split", "test"}) ==
        "heddle: --split test: image folder \"faces\" has no images for testing\n");
  CHECK(folder.error("pack", {"faces", "a.rec", "--set", "data.min_images=2"}) ==
        "heddle: --set: expected an experiment (.json), got faces\n");
  CHECK(folder.error("show", {"lfw.bin", "--people", "noise"}) ==
        "heddle: --people: expected a folder of people, got the file lfw.bin\n");
  CHECK(folder.error("show", {folder.write(small_study())}) ==
        "heddle: e.json: data.type: expected image_folder, image_list or recordio: synthetic_identities has no "
        "files\n");
  REQUIRE(folder.data("pack", {"faces", "a.rec"}).code == 0);
  const std::string before = read_file(folder / "a.rec", 1 << 20);
  CHECK(folder.error("pack", {"faces", "a.rec"}) == "heddle: a.rec: exists already; --force replaces it\n");
  fs::remove(folder / "a.rec");
  CHECK(folder.error("pack", {"faces", "a.rec"}) == "heddle: a.idx: exists already; --force replaces it\n");
  CHECK(folder.data("pack", {"faces", "a.rec", "--force"}).code == 0);
  CHECK(read_file(folder / "a.rec", 1 << 20) == before);
  fs::remove(folder / "a.idx");
  fs::create_directory(folder / "a.idx");
  CHECK(folder.error("pack", {"faces", "a.rec", "--force"}) == "heddle: a.idx: cannot be written: it is a folder\n");
  CHECK(read_file(folder / "a.rec", 1 << 20) == before);
}

}  // namespace heddle::test
