// `heddle search`: galleries, thresholds, what is written, and what is refused.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/export/npy.h"
#include "framework/description/text.h"
#include "tests/support/files/deep_json.h"
#include "tests/support/program/trained.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Rows of 5 numbers, as many as the model of train_small gives, with the names of the rows.
void write_rows(const fs::path& file, const std::vector<std::vector<float>>& rows, const std::string& names) {
  NpyWriter writer(file, static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size()));
  for (const auto& row : rows) writer.append(row);
  writer.finish();
  writer.commit();
  write_file_atomically(fs::path(file).replace_extension(".txt"), names);
}

/// A trained model, and what is searched.
struct Walk {
  Scratch folder;
  std::string results = train_small(folder / "");

  std::string path(const char* name) const { return (folder / name).string(); }
  Called search(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"search", results});
    return call(arguments);
  }
  Json found(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const Called called = search(std::move(arguments));
    CAPTURE(called.err);
    REQUIRE(called.code == 0);
    return Json::parse(called.out);
  }
  std::string error(std::vector<std::string> arguments) const {
    const Called called = search(std::move(arguments));
    CHECK(called.code == 2);
    CHECK(called.out.empty());
    return called.err;
  }
};

/// Ann has two images, the others one.
void write_three_people(const Walk& walk) {
  write_rows(walk.folder / "g.npy", {{1, 0, 0, 0, 0}, {0, 0, 0, 3, 0}, {0, 2, 0, 0, 0}, {0, 0, 0, 0, 1}},
             "x/ann/1.jpg\nx/bob.jpg\nx/ann/2.jpg\nx/eve/1.jpg\n");
  write_rows(walk.folder / "p.npy", {{0, 4, 0, 3, 0}}, "probe.jpg\n");
}

}  // namespace

TEST_CASE("people are compared by the mean of their normalised embeddings, or by their nearest image") {
  const Walk walk;
  write_three_people(walk);
  const Json mean = walk.found({walk.path("g.npy"), walk.path("p.npy"), "--threshold", "0.59"});
  CHECK(mean["gallery"]["people"] == 3);
  CHECK(mean["gallery"]["images"] == 4);
  CHECK(mean["gallery"]["person"] == "mean");
  const Json by_mean = mean["results"][0]["nearest"];
  REQUIRE(by_mean.size() == 3);
  CHECK(by_mean[0]["person"] == "bob.jpg");
  CHECK(std::abs(by_mean[0]["similarity"].get<double>() - 0.6) < 1e-7);
  CHECK(by_mean[0]["match"] == true);
  CHECK(by_mean[1]["person"] == "ann");
  CHECK(std::abs(by_mean[1]["similarity"].get<double>() - 0.8 * std::sqrt(0.5)) < 1e-7);
  CHECK(by_mean[1]["match"] == false);
  CHECK(by_mean[2]["person"] == "eve");

  const Json image = walk.found({walk.path("g.npy"), walk.path("p.npy"), "--nearest-image", "--top", "1"});
  CHECK(image["gallery"]["person"] == "nearest_image");
  const Json by_image = image["results"][0]["nearest"];
  REQUIRE(by_image.size() == 1);
  CHECK(by_image[0]["person"] == "ann");
  CHECK(by_image[0]["image"] == "x/ann/2.jpg");
  CHECK(std::abs(by_image[0]["similarity"].get<double>() - 0.8) < 1e-7);
}

TEST_CASE("the index of a search is a gallery that gives the same results") {
  const Walk walk;
  write_three_people(walk);
  for (const char* const way : {"--top=3", "--nearest-image"}) {
    const Json first = walk.found({walk.path("g.npy"), walk.path("p.npy"), way, "--index", walk.path("index.npy")});
    const Json second = walk.found({walk.path("index.npy"), walk.path("p.npy"), way});
    CHECK(first["results"] == second["results"]);
  }
  walk.found({walk.path("g.npy"), walk.path("p.npy"), "--index", walk.path("index.npy")});
  CHECK(read_file(walk.folder / "index.txt", 100) == "ann\nbob.jpg\neve\n");
  std::vector<float> row(5);
  NpyReader(walk.folder / "index.npy").read(0, row);
  CHECK(std::abs(row[0] - std::sqrt(0.5F)) < 1e-6F);
  CHECK(std::abs(row[1] - std::sqrt(0.5F)) < 1e-6F);
}

TEST_CASE("photographs are found in a folder of people, the same on any ranks and by their embeddings") {
  const Walk walk;
  const std::string probe = walk.path("faces/p2/3.jpg");
  const Json found = walk.found({walk.path("faces"), probe, "--nearest-image"});
  CHECK(found["gallery"]["people"] == 4);
  CHECK(found["gallery"]["images"] == 16);
  CHECK(found["gallery"]["features"] == 5);
  CHECK(found["steps"] == 3);
  const Json nearest = found["results"][0]["nearest"][0];
  CHECK(nearest["person"] == "p2");
  CHECK(nearest["image"] == probe);
  CHECK(std::abs(nearest["similarity"].get<double>() - 1) < 1e-6);

  const Json one_rank = walk.found({walk.path("faces"), probe, "--nearest-image", "--set", "mesh.dp=1"});
  CHECK(one_rank["results"] == found["results"]);
  REQUIRE(call({"embed", walk.results, walk.path("faces"), "--out", walk.path("faces.npy")}).code == 0);
  REQUIRE(call({"embed", walk.results, probe, "--out", walk.path("probe.npy")}).code == 0);
  const Json from_files = walk.found({walk.path("faces.npy"), walk.path("probe.npy"), "--nearest-image"});
  const Json from_file = from_files["results"][0]["nearest"];
  REQUIRE(from_file.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Json expected = found["results"][0]["nearest"][i];
    CHECK(from_file[i]["person"] == expected["person"]);
    CHECK(from_file[i]["image"] == expected["image"]);
    // An image that is embedded in a batch of another size has other rounding errors.
    CHECK(std::abs(from_file[i]["similarity"].get<double>() - expected["similarity"].get<double>()) < 1e-6);
  }
}

TEST_CASE("a table and a .csv have a line for each neighbour") {
  const Walk walk;
  write_three_people(walk);
  const Called called = walk.search(
      {walk.path("g.npy"), walk.path("p.npy"), "--threshold", "0.59", "--top", "2", "--out", walk.path("found.csv")});
  REQUIRE(called.code == 0);
  CHECK(called.out == walk.path("g.npy") +
                          ": 3 people, 4 images; similarity: the cosine with the mean of a person's normalised "
                          "embeddings\nthreshold 0.5900\n"
                          "probe      nearest   person  similarity   verdict\n"
                          "probe.jpg        1  bob.jpg      0.6000     match\n"
                          "                 2      ann      0.5657  no match\n");
  const std::vector<std::string> lines = lines_of(read_file(walk.folder / "found.csv", 1000));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "probe,nearest,person,similarity,match,image");
  CHECK(lines[1].starts_with("probe.jpg,1,bob.jpg,0."));
  CHECK(lines[1].ends_with(",true,x/bob.jpg"));
}

TEST_CASE("the automatic threshold is that of the evaluation, or at a FAR on the gallery's own pairs") {
  const Walk walk;
  write_three_people(walk);
  const std::string summary = walk.results + "/summary.json";
  Json recorded = Json::parse(read_file(summary, 1 << 20));
  recorded["variants"][0]["evaluation"]["sets"] =
      Json::array({{{"name", "probes"}, {"rates", Json::object()}}, {{"name", "lfw"}, {"threshold", 1.2}}});
  write_file_atomically(summary, recorded.dump());
  const Json by_evaluation = walk.found({walk.path("g.npy"), walk.path("p.npy"), "--flip"});
  CHECK(by_evaluation["threshold"]["similarity"].get<double>() == 1 - 1.2 / 2);
  CHECK(by_evaluation["threshold"]["from"] == "the threshold of \"lfw\" in " + summary);
  write_file_atomically(summary, R"({"variants": [{"name": )" + deep_json() + "}]}");
  CHECK(walk.found({walk.path("g.npy"), walk.path("p.npy"), "--flip"})["threshold"].is_null());
  write_file_atomically(summary, recorded.dump());

  // The evaluation compared embeddings with mirrored images, --set or not.
  const Called unlike =
      walk.search({walk.path("g.npy"), walk.path("p.npy"), "--json", "--set", "evaluation.flip=false"});
  CHECK(unlike.code == 0);
  CHECK(unlike.err ==
        "no verdicts: the gallery has fewer than 1000 pairs of images of two people for a FAR of 0.001, and the "
        "recorded threshold is for a search with --flip: give --threshold or a larger --far\n");
  CHECK(Json::parse(unlike.out)["threshold"].is_null());

  // 5 impostor pairs with distances 2, or less for the two images that are nearly the same.
  write_rows(walk.folder / "near.npy", {{1, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 3, 4, 0, 0}, {0, 0, 0, 1, 0}},
             "a/1\na/2\nb/1\nc/1\n");
  const Json by_far = walk.found({walk.path("near.npy"), walk.path("p.npy"), "--far", "0.2"});
  const double similarity = by_far["threshold"]["similarity"];
  CHECK(similarity > 0);
  CHECK(similarity < 1e-6);
  CHECK(by_far["threshold"]["from"] ==
        "FAR 0.2 on 5 impostor pairs of the gallery, which accepts 0.00 % of 1 genuine pair");

  CHECK(walk.error({walk.path("near.npy"), walk.path("p.npy"), "--far", "0.1"}) ==
        "heddle: --threshold auto: the gallery has fewer than 10 pairs of images of two people for a FAR of 0.1: give "
        "--threshold or a larger --far\n");

  recorded["variants"][0]["steps"] = 2;  // of another checkpoint
  write_file_atomically(summary, recorded.dump());
  const std::string why =
      "the gallery has fewer than 1000 pairs of images of two people for a FAR of 0.001, and no evaluation of the "
      "checkpoint is recorded: give --threshold or a larger --far\n";
  CHECK(walk.error({walk.path("g.npy"), walk.path("p.npy"), "--threshold", "auto"}) ==
        "heddle: --threshold auto: " + why);
  const Called without = walk.search({walk.path("g.npy"), walk.path("p.npy"), "--json"});
  CHECK(without.code == 0);
  CHECK(without.err == "no verdicts: " + why);
  CHECK(Json::parse(without.out)["threshold"].is_null());
  CHECK(Json::parse(without.out)["results"][0]["nearest"][0]["match"].is_null());
}

TEST_CASE("a sheet is one page with the images in it, whose names are escaped") {
  const Walk walk;
  const fs::path image = walk.folder / "<b>&.jpg";
  write_file_atomically(image, face_as_jpeg(1, 1));
  REQUIRE(walk.search({walk.path("faces"), image.string(), "--sheet", walk.path("sheet.html"), "--top", "2"}).code ==
          0);
  const std::string page = read_file(walk.folder / "sheet.html", 1 << 20);
  CHECK(page.find("<b>&.jpg") == std::string::npos);
  CHECK(page.find("&lt;b&gt;&amp;.jpg") != std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("http:") == std::string::npos);
  CHECK(page.find("https:") == std::string::npos);
  CHECK(page.find(
            "4 people, 16 images; similarity: the cosine with the mean of a person&#39;s normalised embeddings</p>") !=
        std::string::npos);
  std::size_t images = 0;
  for (std::size_t at = 0; (at = page.find("src=\"data:image/jpeg;base64,/9j/", at)) != std::string::npos; ++at)
    ++images;
  CHECK(images == 3);

  write_three_people(walk);  // whose images are not there
  REQUIRE(walk.search({walk.path("g.npy"), walk.path("p.npy"), "--sheet", walk.path("sheet.html")}).code == 0);
  CHECK(read_file(walk.folder / "sheet.html", 1 << 20).find("<div>no image</div>") != std::string::npos);
}

TEST_CASE("search names what is wrong with its gallery, its probes and its files, and leaves no file") {
  const Walk walk;
  write_three_people(walk);
  const std::string g = walk.path("g.npy");
  const std::string p = walk.path("p.npy");
  write_rows(walk.folder / "seven.npy", {{1, 2, 3, 4, 5, 6, 7}}, "a\n");
  CHECK(walk.error({walk.path("seven.npy"), p}) == "heddle: " + walk.path("seven.npy") +
                                                       ": has embeddings of 7 features, but the checkpoint's model "
                                                       "gives 5\n");
  CHECK(walk.error({g, walk.path("seven.npy")}) == "heddle: " + walk.path("seven.npy") +
                                                       ": has embeddings of 7 features, but the checkpoint's model "
                                                       "gives 5\n");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_rows(walk.folder / "nan.npy", {{1, 0, 0, 0, 0}, {1, nan, 0, 0, 0}}, "a\nb\n");
  CHECK(walk.error({walk.path("nan.npy"), p, "--out", walk.path("out.json")}) ==
        "heddle: " + walk.path("nan.npy") + ": row 1, \"b\": the embedding has a number that is not finite\n");
  CHECK(walk.error({g, walk.path("nan.npy")}) ==
        "heddle: " + walk.path("nan.npy") + ": row 1, \"b\": the embedding has a number that is not finite\n");
  write_rows(walk.folder / "zero.npy", {{0, 0, 0, 0, 0}}, "a\n");
  CHECK(walk.error({walk.path("zero.npy"), p}) ==
        "heddle: " + walk.path("zero.npy") + ": row 0, \"a\": the embedding is 0\n");
  write_rows(walk.folder / "cancel.npy", {{1, 2, 0, 0, 0}, {0, 0, 1, 0, 0}, {-1, -2, 0, 0, 0}}, "a/1\nb/1\na/2\n");
  CHECK(walk.error({walk.path("cancel.npy"), p, "--out", walk.path("out.json")}) ==
        "heddle: " + walk.path("cancel.npy") +
            ": the embeddings of \"a\" cancel each other: --nearest-image compares with each image\n");
  CHECK(walk.search({walk.path("cancel.npy"), p, "--nearest-image"}).code == 0);
  write_rows(walk.folder / "names.npy", {{1, 0, 0, 0, 0}}, "a\nb\n");
  CHECK(walk.error({walk.path("names.npy"), p}) ==
        "heddle: " + walk.path("names.txt") + ": has 2 lines, but " + walk.path("names.npy") + " has 1 row\n");
  fs::remove(walk.folder / "names.txt");
  CHECK(walk.error({walk.path("names.npy"), p}) == "heddle: " + walk.path("names.txt") +
                                                       ": does not exist: expected the names of the 1 row of " +
                                                       walk.path("names.npy") + ", one per line\n");
  fs::create_directory(walk.folder / "empty");
  CHECK(walk.error({walk.path("empty"), p}) == "heddle: " + walk.path("empty") + ": has no images\n");
  CHECK(walk.error({g, walk.path("none.jpg")}) == "heddle: " + walk.path("none.jpg") + ": does not exist\n");
  CHECK(walk.error({g, p, "--out", walk.path("out.txt")}) ==
        "heddle: --out " + walk.path("out.txt") + ": expected a file that ends in .json or .csv\n");
  CHECK(walk.error({g, p, "--sheet", walk.path("out.txt")}) ==
        "heddle: --sheet " + walk.path("out.txt") + ": expected a file that ends in .html\n");
  CHECK(walk.error({g, p, "--index", g}) ==
        "heddle: --index " + g + ": is the gallery itself: expected another file\n");
  CHECK(walk.error({g, p, "--index", p}) == "heddle: --index " + p + ": is among the probes: expected another file\n");
  for (const auto& [option, name] : {std::pair("--out", "x.csv"), {"--sheet", "x.html"}, {"--index", "x.npy"}})
    CHECK(walk.error({g, walk.path("broken.jpg"), option, walk.path("none/") + name}) ==
          "heddle: " + walk.path("none/") + name + ": cannot be written: No such file or directory\n");
  CHECK(walk.error({g, p, "--threshold", "high"}) ==
        "heddle: --threshold: expected auto or a similarity from -1 to 1, found \"high\"\n");
  for (const char* const far : {"nan", "0", "1e-07", "0.6"})
    CHECK(walk.error({g, p, "--far", far}) ==
          fmt::format("heddle: --far: expected a rate from 1e-06 to 0.5, found {}\n", far));
  CHECK(walk.error({g, p, "--threshold", "0.5", "--far", "0.1"}) == "heddle: --far: is for --threshold auto\n");
  CHECK(walk.error({g, p, "--set", "device=plan"}) == "heddle: device: expected cpu or cuda, found plan\n");
  write_file_atomically(walk.folder / "broken.jpg", face_as_jpeg(0, 0).substr(0, 200));
  CHECK(walk.error({g, walk.path("broken.jpg"), "--sheet", walk.path("out.html")}).find("broken.jpg") !=
        std::string::npos);
  for (const char* const name : {"out.json", "out.html", "out.txt"}) CHECK(!fs::exists(walk.folder / name));
}

}  // namespace heddle::test
