// `heddle plan --search`, as a user sees it.
#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>

#include "framework/files/atomic_file.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/devices.h"
#include "tests/support/program/explained.h"

namespace heddle::test::plan_search_test {

namespace {

using test::call;
using test::Called;
using test::Json;

/// Four stages of a model without batch norms; the search may change the mesh.
Json pipeline() {
  return Json::parse(R"({
    "name": "small", "threads": 1, "mesh": {"pp": 4},
    "links": {"latency": 1e-5, "bandwidth": 1e9}, "profile": {"flops": 1e10, "bandwidth": 1e10},
    "data": {"type": "synthetic_identities", "identities": 20, "image": [1, 8, 8], "train_per_identity": 4},
    "model": {"type": "mlp", "hidden": [128, 128, 128, 128], "embedding": 32},
    "head": {"classes": 200},
    "pipeline": {"schedule": "gpipe"},
    "train": {"batch": 32, "micro_batches": 4, "steps": 2, "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9}}})");
}

/// The folder of a search, and how the program was called there.
struct Searched {
  Scratch folder;
  std::string file = (folder / "small.json").string();
  std::string out = (folder / "found.json").string();

  explicit Searched(const Json& experiment) { std::ofstream(file) << experiment.dump(); }
  Called operator()(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"plan", file, "--search", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::call(arguments);
  }
};

Json first_variant(const Called& called) {
  REQUIRE(called.code == 0);
  return Json::parse(called.out)["variants"][0];
}

std::int64_t fullest(const Json& variant) {
  std::int64_t most = 0;
  for (const Json& rank : variant["ranks"]) most = std::max(most, rank["peak_bytes"]["total"].get<std::int64_t>());
  return most;
}

std::size_t count_in(const std::string& text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

/// Whether Python reads the file as XML.
bool is_xml(const std::string& file) {
  const std::string command = "python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' '" + file + "'";
  return std::system(command.c_str()) == 0;
}

}  // namespace

TEST_CASE("the experiment that a search writes has the step and the memory that were predicted" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const Searched search(pipeline());
  const Called called = search({"--json"});
  CHECK(called.err == "experiment: " + search.out + "\n");
  REQUIRE(called.code == 0);
  const Json found = Json::parse(called.out);
  CHECK(found["file"] == search.out);
  const Json& best = found["searches"][0]["best"][0];
  const Json plan = first_variant(test::call({"plan", search.out, "--json"}));
  CHECK(plan["step_seconds"]["median"] == best["step_seconds"]);
  CHECK(fullest(plan) == best["peak_bytes"]);
  const Json written = first_variant(test::call({"plan", search.file, "--json"}));
  CHECK(written["step_seconds"]["median"] == found["searches"][0]["written"]["step_seconds"]);
  CHECK(best["step_seconds"] < found["searches"][0]["written"]["step_seconds"]);
  CHECK(found["searches"][0]["bound_seconds"] <= best["step_seconds"]);
}

TEST_CASE("the experiment that a search writes trains the same thing" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const Searched search(pipeline());
  REQUIRE(search({}).code == 0);
  const auto losses = [&](const std::string& file, const char* results) {
    return first_variant(
        test::call({"run", file, "--json", "--out", (search.folder / results).string()}))["loss_per_step"];
  };
  const Json before = losses(search.file, "before");
  const Json after = losses(search.out, "after");
  REQUIRE(before.size() == after.size());
  for (std::size_t step = 0; step < before.size(); ++step)
    CHECK(after[step].get<double>() == close_to(before[step].get<double>()).epsilon(2e-5));
}

TEST_CASE("a search prints tables, the bound, and what it has tried" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const Searched search(pipeline());
  const Called called = search({"--budget", "32MB", "--allow", "recompute,offload,micro_batches"});
  REQUIRE(called.code == 0);
  for (const char* text : {"small: the fastest layouts of 4 ranks within 30.5 MiB each\n", "the file itself (pp 4): ",
                           "each option alone changed to its best other value, compared with the file\n",
                           "time against memory: ", "\nLower bound: ", " were estimated, "})
    CHECK_MESSAGE(called.out.find(text) != std::string::npos, text);
  const Json written = Json::parse(read_file(search.out, 1 << 20));
  CHECK(written["name"] == "small_searched");
  CHECK(written["memory_budget"] == 32'000'000);
  CHECK_FALSE(written.contains("device"));  // the default
}

TEST_CASE("the picture of a search has the front, the file's layout, the fastest one and the budget" *
          doctest::test_suite(test::long_under_sanitizers)) {
  Json experiment = pipeline();
  experiment["name"] = "small & sharp's";
  const Searched search(experiment);
  const std::string file = (search.folder / "front.svg").string();
  const Called called = search({"--json", "--budget", "430kB", "--allow", "recompute", "--svg", file});
  CHECK(called.err == "experiment: " + search.out + "\npicture: " + file + "\n");
  const Json found = Json::parse(called.out)["searches"][0];
  const std::string svg = read_file(file, 1 << 20);
  CHECK(is_xml(file));
  CHECK(count_in(svg, "<circle class=\"front\"") == found["front"].size());
  CHECK(count_in(svg, "<circle class=\"plan\"") > found["front"].size());
  CHECK(count_in(svg, "<title>pp 4, gpipe, 4 micro-batches: ") > 0);
  for (const char* const text :
       {"<title>small &amp; sharp&#39;s: step time and peak memory of layouts of 4 ranks</title>",
        "<path class=\"budget\"", ">budget 420 KiB<", "<path class=\"written\"", ">file<", ">the file: pp 4, ",
        "<path class=\"fastest\"", ">fastest<", ">the fastest that fits: ", ">planned<", ">step time (us)<",
        ">peak memory of the fullest rank (KiB)<", ">Not drawn: ", " slower or larger layouts.<"})
    CHECK_MESSAGE(count_in(svg, text) == 1, text);
}

TEST_CASE(
    "the picture of a search leaves out a budget that is far above all layouts, and marks a file that is the best") {
  Json experiment = pipeline();
  experiment["mesh"] = Json::object();
  const Searched first(experiment);
  REQUIRE(first({}).code == 0);
  const Searched search(Json::parse(read_file(first.out, 1 << 20)));
  const std::string file = (search.folder / "front.svg").string();
  REQUIRE(search({"--budget", "8GB", "--svg", file}).code == 0);
  const std::string svg = read_file(file, 1 << 20);
  CHECK(is_xml(file));
  CHECK(count_in(svg, ">budget 7.45 GiB, above this picture<") == 1);
  CHECK(count_in(svg, "class=\"budget\"") == 0);
  CHECK(count_in(svg, ">the file, the fastest that fits: 1 rank, ") == 1);
  CHECK(count_in(svg, "class=\"written\"") == 0);
  CHECK(count_in(svg, ">estimated (~)<") == 0);
}

TEST_CASE("a picture of a search that could not be written is refused before the search") {
  const Searched search(pipeline());
  const auto refused = [](const Searched& searched, const std::string& svg) {
    const Called called = searched({"--svg", svg});
    CHECK(called.code == 2);
    CHECK_FALSE(std::filesystem::exists(searched.out));
    return called.err;
  };
  const std::string png = (search.folder / "front.png").string();
  CHECK(refused(search, png) == "heddle: --svg: expected an .svg file, got " + png + "\n");
  CHECK(refused(search, (search.folder / "none/front.svg").string()) ==
        "heddle: --svg: there is no folder " + (search.folder / "none").string() + "\n");
  const std::string svg = (search.folder / "front.svg").string();
  std::ofstream(svg) << "mine";
  CHECK(refused(search, svg) == "heddle: " + svg + ": exists already; --force replaces it\n");
  CHECK(read_file(svg, 100) == "mine");
  CHECK(search({"--ranks", "1", "--svg", svg, "--force"}).code == 0);
  CHECK(read_file(svg, 1 << 20).starts_with("<svg "));
  const std::string folder = (search.folder / "folder.svg").string();
  std::filesystem::create_directory(folder);
  CHECK(search({"--svg", folder, "--force"}).err == "heddle: " + folder + ": cannot be written: it is a folder\n");
  const std::string full = (search.folder / "full.svg").string();
  std::filesystem::create_symlink("/dev/full", full);
  CHECK(search({"--svg", full, "--force"}).err ==
        "heddle: " + full + ": cannot be written: it is not a regular file\n");
  Json study = pipeline();
  study["variants"] = {{{"name", "one"}}, {{"name", "two"}}};
  CHECK(refused(Searched(study), (search.folder / "both.svg").string()) ==
        "heddle: --svg: expected an experiment with one variant, small has 2\n");
}

TEST_CASE("a search does not replace a file, unless it is told to") {
  const Searched search(pipeline());
  std::ofstream(search.out) << "mine";
  const Called refused = search({"--ranks", "1"});
  CHECK(refused.code == 2);
  CHECK(refused.err == "heddle: " + search.out + ": exists already; --force replaces it\n");
  CHECK(read_file(search.out, 100) == "mine");
  CHECK(search({"--ranks", "1", "--force"}).code == 0);
  CHECK(read_file(search.out, 1 << 20).starts_with("{"));
}

TEST_CASE("a search into a folder that does not exist is refused before it begins") {
  Searched search(pipeline());
  search.out = (search.folder / "none/found.json").string();
  const Called refused = search({});
  CHECK(refused.code == 2);
  CHECK(refused.err == "heddle: --out: there is no folder " + (search.folder / "none").string() + "\n");
}

TEST_CASE("offloading is estimated, too" * doctest::test_suite(test::long_under_sanitizers)) {
  Json experiment = pipeline();
  experiment["pipeline"]["schedule"] = "gpipe";
  experiment["pipeline"]["offload"] = "all";
  const Searched search(experiment);
  CHECK(Json::parse(search({"--json"}).out)["searches"][0]["best"].size() > 0);
}

TEST_CASE("a budget into which nothing fits is an error with the smallest peak and what takes most of it" *
          doctest::test_suite(test::long_under_sanitizers)) {
  const Searched search(pipeline());
  const Called called = search({"--budget", "20000"});
  CHECK(called.code == 3);
  CHECK(called.err.starts_with(
      "heddle: small: no layout that was tried fits into 19.5 KiB per rank: the smallest peak is "));
  CHECK(called.err.find(" KiB, of ") != std::string::npos);
  CHECK(called.err.find("; there ") != std::string::npos);
  CHECK(called.err.find(" of rank ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(search.out));
}

TEST_CASE("the ranks of a search may have budgets of their own" * doctest::test_suite(test::long_under_sanitizers)) {
  Json experiment = pipeline();
  experiment["mesh"]["pp"] = 2;
  experiment["ranks"] = {{"memory_budget", {32'000'000, 16'000'000}}};
  const Searched search(experiment);
  const Called called = search({});
  REQUIRE(called.code == 0);
  CHECK(called.out.starts_with("small: the fastest layouts of 2 ranks within ranks.memory_budget\n"));
  CHECK(called.out.find("(% of the rank's budget)") != std::string::npos);
  const Json plan = first_variant(test::call({"plan", search.out, "--json"}));
  CHECK(plan["status"] == "ok");
  const Json found = Json::parse(search({"--force", "--json"}).out)["searches"][0];
  CHECK(found["budget"].is_null());
  CHECK(found["rank_budgets"] == experiment["ranks"]["memory_budget"]);
  const Json& best = found["best"][0];
  const Json& fullest = plan["ranks"][best["fullest_rank"].get<std::size_t>()];
  CHECK(fullest["peak_bytes"]["total"] == best["peak_bytes"]);
  // The option stands for the budgets of all ranks.
  CHECK(search({"--force", "--budget", "32MB"}).out.starts_with("small: the fastest layouts of 2 ranks within 30.5"));
  experiment["ranks"] = {{"memory_budget", {32'000'000, 10'000}}};
  const Called none = Searched(experiment)({});
  CHECK(none.code == 3);
  CHECK(none.err.starts_with(
      "heddle: small: no layout that was tried fits into ranks.memory_budget: the one that exceeds it least takes "));
  CHECK(none.err.find(" on rank 1, ") != std::string::npos);
  // Ranks past the end of the list have the common budget, and no layout fits into it.
  experiment["memory_budget"] = 10'000;
  experiment["ranks"] = {{"memory_budget", {0, 0}}};
  CHECK(Searched(experiment)({"--ranks", "4"}).code == 3);
  CHECK(Searched(experiment)({}).out.starts_with("small: the fastest layouts of 2 ranks\n"));
}

TEST_CASE("a search refuses a file with two copies of each stage, which it does not try") {
  Json two_copies = pipeline();
  two_copies["pipeline"]["schedule"] = "chimera";
  const Called refused = Searched(two_copies)({});
  CHECK(refused.code == 2);
  CHECK(refused.err ==
        "heddle: small: pipeline.schedule: expected one copy of each stage, got chimera: --search does not try two "
        "copies\n");
}

TEST_CASE("a variant into whose budget nothing fits is reported, and the others are searched" *
          doctest::test_suite(test::long_under_sanitizers)) {
  Json study = pipeline();
  study["mesh"]["pp"] = 2;
  study["variants"] = {{{"name", "none"}, {"patch", {{"memory_budget", 20000}}}},
                       {{"name", "one"}, {"patch", {{"memory_budget", 100'000'000}}}}};
  const Searched search(study);
  const Called called = search({"--json"});
  CHECK(called.code == 3);
  CHECK(called.err.starts_with(
      "heddle: none: no layout that was tried fits into 19.5 KiB per rank: the smallest peak is "));
  CHECK(called.err.ends_with("; this variant is not in the experiment\nexperiment: " + search.out + "\n"));
  const Json searches = Json::parse(called.out)["searches"];
  REQUIRE(searches.size() == 2);
  CHECK(searches[0]["error"].get<std::string>().starts_with("none: no layout that was tried fits into 19.5 KiB"));
  CHECK(searches[0]["best"].empty());
  CHECK(searches[1]["error"].is_null());
  const Json written = Json::parse(read_file(search.out, 1 << 20));
  REQUIRE(written["variants"].size() == 1);
  CHECK(written["variants"][0]["name"] == "one");
  const Called text = search({"--force"});
  CHECK(text.code == 3);
  CHECK(text.out.starts_with("one: the fastest layouts of 2 ranks within 95.4 MiB each\n"));
}

TEST_CASE("layouts that are too large to be planned are marked as estimates, in tables and in the picture" *
          doctest::test_suite(test::long_under_sanitizers)) {
  Json experiment = pipeline();
  experiment["train"]["batch"] = 8192;
  const Searched search(experiment);
  const Called text = search({"--ranks", "256"});
  REQUIRE(text.code == 0);
  CHECK(text.out.find(
            " ~ marks estimates, of layouts that were not planned. The search ended when it had planned as much "
            "as it may: better layouts may exist.\n") != std::string::npos);
  const std::string picture = (search.folder / "front.svg").string();
  const Json found = Json::parse(search({"--ranks", "256", "--force", "--json", "--svg", picture}).out);
  int estimates = 0;
  for (const char* list : {"best", "front"})
    for (const Json& layout : found["searches"][0][list]) {
      CHECK(layout["estimated"] == layout["peak"].is_null());
      estimates += layout["estimated"] == true ? 1 : 0;
    }
  CHECK(estimates > 0);
  const std::string svg = read_file(picture, 1 << 20);
  CHECK(is_xml(picture));
  CHECK(count_in(svg, "<circle class=\"front\"") == found["searches"][0]["front"].size());
  CHECK(count_in(svg, "<circle class=\"estimate\"") > 0);
  for (const std::string each : {">estimated (~)<", ">step time (ms), logarithmic<", ">the file on 4 ranks: pp 4, "})
    CHECK_MESSAGE(count_in(svg, each) == 1, each);
  // A search that plans all of its layouts explains no mark.
  CHECK(search({"--ranks", "1", "--force"}).out.find("~") == std::string::npos);
}

TEST_CASE("wrong options of a search are errors") {
  const Searched search(pipeline());
  const auto error = [&](const std::vector<std::string>& more) {
    const Called called = search(more);
    CHECK(called.code == 2);
    return called.err;
  };
  CHECK(error({"--allow", "recompte"}) ==
        "heddle: --allow: expected \"recompute\", \"offload\", \"micro_batches\" or \"norm_groups\", got \"recompte\"; "
        "did you mean \"recompute\"?\n");
  CHECK(error({"--budget", "32"}) ==
        "heddle: --budget: expected bytes such as 32GB, 1.5GiB or 4096, up to 9 PB (numbers below 1000 need a unit), "
        "got \"32\"\n");
  for (const std::string ranks : {"1e3", "0", "1025", "four"})
    CHECK(error({"--ranks", ranks}) == "heddle: --ranks: expected an integer from 1 to 1024, got \"" + ranks + "\"\n");
  CHECK(call({"plan", search.file, "--search", "--out", ""}).err ==
        "heddle: --out: expected a folder or, with --search, a file, got \"\"\n");
  Json normed = pipeline();
  normed["model"]["embedding_norm"] = true;
  normed["mesh"] = {{"dp", 2}};
  const Called no_mesh = Searched(normed)({"--ranks", "97"});
  CHECK(no_mesh.code == 2);
  CHECK(
      no_mesh.err.starts_with("heddle: no mesh of 97 ranks trains small:\n"
                              "  dp 97: train.batch = 32 has fewer samples than parts, dp 97 x 4 micro-batches\n"
                              "  pp 97: the model has "));
  Json unequal = pipeline();
  unequal["ranks"] = {{"speed", {1, 0.5, 1, 1}}};
  CHECK(Searched(unequal)({"--ranks", "2"}).err ==
        "heddle: --ranks 2: small: ranks.speed has 4 entries, one for each rank: expected at most 2, or --ranks 4 or "
        "more\n");
  unequal["ranks"] = {{"memory_budget", {1000000, 1000000, 1000000}}};
  unequal["mesh"] = {{"dp", 1}};
  const Called small_mesh = Searched(unequal)({"--ranks", "4"});
  CHECK(small_mesh.code == 2);
  CHECK(small_mesh.err ==
        "heddle: --ranks 4: small: ranks.memory_budget has 3 entries, one for each rank, and the mesh of the file only "
        "1 rank: expected a mesh of at least 3 ranks, because the file must be valid by itself\n");
  const auto without_search = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"plan", search.file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Called called = test::call(arguments);
    CHECK(called.code == 2);
    return called.err;
  };
  CHECK(without_search({"--budget", "32GB"}) == "heddle: plan: --budget is for --maximise and --search\n");
  CHECK(without_search({"--ranks", "2"}) == "heddle: --ranks requires --search\n");
  CHECK(without_search({"--allow", "recompute"}) == "heddle: --allow requires --search\n");
  CHECK(without_search({"--svg", "front.svg"}) == "heddle: --svg requires --search\n");
  CHECK(without_search({"--force"}) == "heddle: --force requires --search\n");
  CHECK(without_search({"--search", "--maximise", "head.classes"}) == "heddle: --maximise excludes --search\n");
}

}  // namespace heddle::test::plan_search_test
