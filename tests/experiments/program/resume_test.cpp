// Runs that resume from a checkpoint, and runs that may not.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/results/results_folder.h"
#include "experiments/training/checkpoints/find_checkpoint.h"
#include "framework/files/atomic_file.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/files/file_size_limit.h"
#include "tests/support/program/called.h"

namespace heddle::test {
namespace {

using Json = nlohmann::json;

using test::call;
using test::Called;
using test::Files;
using test::small_study;
using test::summary;

TEST_CASE("resuming after step 4 of 6 gives, bit for bit, the losses and the accuracy of the whole run") {
  Files files;
  Json experiment = small_study();
  experiment["train"]["save_every"] = 4;
  experiment["evaluation"] = Json::object();
  const std::string file = files.write(experiment);
  const Called whole = call({"run", file, "--out", files.path("whole"), "--json"});
  REQUIRE(whole.code == 0);
  // The same run with a bound on its time: killed after step 4 was saved.
  REQUIRE(call({"run", file, "--out", files.path("cut"), "--set", "train.steps=4"}).code == 0);
  const Called resumed = call({"run", file, "--out", files.path("cut"), "--json", "--resume"});
  REQUIRE(resumed.code == 0);
  const Json losses = summary(whole)["variants"][0]["loss_per_step"];
  const Json rest = summary(resumed)["variants"][0]["loss_per_step"];
  CHECK(losses.size() == 6);
  CHECK(rest == losses);
  CHECK(summary(whole)["variants"][0]["evaluation"] == summary(resumed)["variants"][0]["evaluation"]);
}

TEST_CASE("classes that defer their steps have the same bits in a resumed run that has saved after the same steps") {
  Files files;
  Json experiment = small_study();
  experiment["head"] = Json::parse(R"({"classes": 40, "logits": "sharded",
                                       "sample": {"rate": 0.2, "unsampled": "lazy"}})");
  experiment["train"]["steps"] = 20;
  experiment["train"]["save_every"] = 7;
  const std::string file = files.write(experiment);
  const Called whole = call({"run", file, "--out", files.path("whole"), "--json"});
  CAPTURE(whole.err);
  REQUIRE(whole.code == 0);
  REQUIRE(call({"run", file, "--out", files.path("cut"), "--set", "train.steps=7"}).code == 0);
  const Called resumed = call({"run", file, "--out", files.path("cut"), "--json", "--resume"});
  REQUIRE(resumed.code == 0);
  CHECK(summary(resumed)["variants"][0]["loss_per_step"] == summary(whole)["variants"][0]["loss_per_step"]);
  // A comparison of replicas does not change them either.
  const Called compared =
      call({"run", file, "--out", files.path("compared"), "--json", "--set", "train.check_replicas=1"});
  CHECK(summary(compared)["variants"][0]["loss_per_step"] == summary(whole)["variants"][0]["loss_per_step"]);
}

TEST_CASE("a run replaces earlier checkpoints only with --force, and begins anew in place of resuming only with auto") {
  Files files;
  const std::string file = files.write(small_study());
  const std::vector<std::string> run{"run", file, "--out", files.path("out")};
  const auto with = [&](const std::string& option) {
    std::vector<std::string> arguments = run;
    arguments.push_back(option);
    return call(arguments);
  };
  const Called nothing = with("--resume");
  CHECK(nothing.code == 2);
  CHECK(nothing.err == "heddle: " + files.path("out") +
                           ": there is no checkpoint to resume from: leave --resume out, or use --resume=auto\n");
  CHECK_FALSE(std::filesystem::exists(files.path("out")));
  const Called begun = with("--resume=auto");
  CHECK(begun.code == 0);
  CHECK(begun.err.find("no checkpoint found: starting from the beginning\n") != std::string::npos);
  const std::string before = files.contents("out");
  const Called refused = call(run);
  CHECK(refused.code == 2);
  CHECK(refused.err == "heddle: " + files.path("out") +
                           ": holds a checkpoint of an earlier run (small/step 6): continue that run with --resume, "
                           "replace it with --force, or choose another folder with --out\n");
  CHECK(files.contents("out") == before);
  CHECK(with("--resume=auto").code == 0);
  CHECK(with("--resume=always").code == 0);
  CHECK(with("--resume=newest").code == 2);
  CHECK(with("--force").code == 0);
}

TEST_CASE("a whole run that is resumed leaves its results as they are, and prints its summary again") {
  Files files;
  const std::string file = files.write(small_study());
  const Called whole = call({"run", file, "--out", files.path("out"), "--json"});
  REQUIRE(whole.code == 0);
  const std::string before = files.contents("out");
  const Called resumed = call({"run", file, "--out", files.path("out"), "--resume", "--json"});
  CHECK(resumed.code == 0);
  CHECK(resumed.err ==
        "all steps were done before: nothing is left to do, and the results stay as they are\nresults: " +
            files.path("out") + "\n");
  CHECK(resumed.out == whole.out);
  CHECK(files.contents("out") == before);
  // Without its summary, or with a setting that evaluates more, it is resumed as any other run.
  CHECK(
      call({"run", file, "--out", files.path("out"), "--resume", "--set", "evaluation.batch=3"})
          .err.find("all 6 steps were done: nothing is trained, and the figures of memory and bytes are those of this "
                    "run\n") != std::string::npos);
  std::filesystem::remove(files.path("out") + "/summary.json");
  CHECK(call({"run", file, "--out", files.path("out"), "--resume"}).err.find("resuming after step 6\n") !=
        std::string::npos);
}

TEST_CASE("a run neither resumes nor continues the results of another experiment") {
  Files files;
  const std::string file = files.write(small_study());
  REQUIRE(call({"run", file, "--out", files.path("out")}).code == 0);
  const std::string before = files.contents("out");
  Json other = small_study();
  other["name"] = "other";
  const std::string other_file = files.write(other);
  for (const char* const option : {"--resume", "--resume=auto"}) {
    const Called refused = call({"run", other_file, "--out", files.path("out"), option});
    CHECK(refused.code == 2);
    CHECK(refused.err == "heddle: " + files.path("out") +
                             ": holds a checkpoint of another variant (small/step 6), and none of this experiment's: "
                             "choose another folder with --out, or replace its results with --force\n");
  }
  CHECK(files.contents("out") == before);
  REQUIRE(call({"run", other_file, "--out", files.path("out"), "--force"}).code == 0);
  CHECK_FALSE(std::filesystem::exists(files.path("out") + "/checkpoint/small"));
  CHECK(std::filesystem::exists(files.path("out") + "/checkpoint/other/step-000006"));
}

TEST_CASE("results without checkpoints are replaced, but those of another experiment only with --force") {
  Files files;
  Json study = small_study();
  study["train"]["save"] = false;
  const std::string file = files.write(study);
  REQUIRE(call({"run", file, "--out", files.path("out")}).code == 0);
  CHECK(call({"run", file, "--out", files.path("out"), "--set", "seed=3"}).code == 0);
  const std::string before = files.contents("out");
  study["name"] = "other";
  const std::string other = files.write(study, "other.json");
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--resume=auto"}}) {
    std::vector<std::string> run{"run", other, "--out", files.path("out")};
    run.insert(run.end(), options.begin(), options.end());
    const Called refused = call(run);
    CHECK(refused.code == 2);
    CHECK(refused.err == "heddle: " + files.path("out") +
                             ": holds the results of another experiment (small): replace them with --force" +
                             (options.empty() ? "" : " in place of --resume") +
                             ", or choose another folder with --out\n");
  }
  CHECK(files.contents("out") == before);
  CHECK(call({"run", other, "--out", files.path("out"), "--force"}).code == 0);
}

TEST_CASE("a best checkpoint without another one is lost only with --force or --resume=auto") {
  Files files;
  Json study = small_study();
  study["evaluation"] = Json::parse(R"({"every": 2, "keep_best": true, "sets": [{"name": "faces", "type": "drawn"}]})");
  const std::string file = files.write(study);
  const std::string kept = files.path("out") + "/checkpoint/small";
  REQUIRE(call({"run", file, "--out", files.path("out")}).code == 0);
  std::filesystem::remove_all(kept + "/step-000006");
  const std::int64_t best = latest_in(kept + "/best").value();
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--resume"}}) {
    std::vector<std::string> run{"run", file, "--out", files.path("out")};
    run.insert(run.end(), options.begin(), options.end());
    const Called refused = call(run);
    CHECK(refused.code == 2);
    CHECK(refused.err ==
          fmt::format("heddle: {}: holds the best checkpoint of an earlier run (small/best/step {}), and "
                      "none that can be resumed: choose another folder with --out, or begin again and "
                      "lose it with --force\n",
                      files.path("out"), best));
  }
  CHECK(latest_in(kept + "/best") == best);
  CHECK(call({"run", file, "--out", files.path("out"), "--force"}).code == 0);
}

TEST_CASE("a run that replaces an earlier one removes the checkpoints of all its variants before the first step") {
  Files files;
  Json study = small_study();
  study["variants"] = Json::parse(R"([{"name": "a"}, {"name": "b"}])");
  study["evaluation"] = Json::parse(R"({"every": 2, "keep_best": true, "sets": [{"name": "faces", "type": "drawn"}]})");
  const std::string file = files.write(study);
  REQUIRE(call({"run", file, "--out", files.path("out")}).code == 0);
  const std::string of_b = files.path("out") + "/checkpoint/b";
  REQUIRE(std::filesystem::exists(of_b + "/best"));
  const std::string other_file = files.path("out") + "/checkpoint/a/notes.txt";
  std::ofstream(other_file) << "mine";
  // A run that does not begin keeps them all, and a plan does not replace the results.
  CHECK(call({"run", file, "--out", files.path("out"), "--force", "--set", "head.classes=1"}).code == 2);
  CHECK(call({"run", file, "--out", files.path("out"), "--force", "--set", "memory_budget=1000"}).code == 3);
  const Called plan = call({"plan", file, "--out", files.path("out")});
  CHECK(plan.code == 2);
  CHECK(plan.err == "heddle: " + files.path("out") +
                        ": holds the results of a run, which the plan's would replace: choose another folder with "
                        "--out\n");
  CHECK(std::filesystem::exists(of_b + "/step-000006"));
  // The first variant begins, the second does not.
  study["variants"][1]["patch"]["memory_budget"] = 1000;
  CHECK(call({"run", files.write(study), "--out", files.path("out"), "--force"}).code == 3);
  CHECK_FALSE(std::filesystem::exists(of_b));
  CHECK(std::filesystem::exists(files.path("out") + "/checkpoint/a/step-000006"));
  CHECK(std::filesystem::exists(other_file));
}

TEST_CASE("a checkpoint folder that cannot be read is not taken for an empty one") {
  Files files;
  const std::string file = files.write(small_study());
  std::filesystem::create_directory(files.path("out"));
  std::ofstream(files.path("out") + "/checkpoint") << "not a folder";
  for (const char* const option : {"--resume", "--resume=auto", "--force", "--json"}) {
    const Called called = call({"run", file, "--out", files.path("out"), option});
    CHECK(called.code == 2);
    CHECK(called.err == "heddle: " + files.path("out") + "/checkpoint: cannot be read as a folder: Not a directory\n");
  }
}

TEST_CASE("a run into a file in place of a folder is refused at once") {
  for (const char* const option : {"--resume", "--json"})
    CHECK(call({"run", "any.json", "--out", "/dev/full", option}).err ==
          "heddle: --out: expected a folder, got the file /dev/full\n");
}

TEST_CASE("a run into the folder of a run under way is told so, although there are checkpoints") {
  Files files;
  const std::vector<std::string> run{"run", files.write(small_study()), "--out", files.path("out")};
  REQUIRE(call(run).code == 0);
  const ResultsFolder under_way(files.path("out"), "{}", true);
  const Called second = call(run);
  CHECK(second.code == 2);
  CHECK(second.err.find("another run is writing its results there") != std::string::npos);
}

TEST_CASE("a run that replaces an earlier one leaves none of its checkpoints to resume") {
  Files files;
  const std::string file = files.write(small_study());
  REQUIRE(call({"run", file, "--out", files.path("out")}).code == 0);
  REQUIRE(call({"run", file, "--out", files.path("out"), "--force", "--set", "train.steps=3"}).code == 0);
  const std::string checkpoints = files.path("out") + "/checkpoint/small/";
  CHECK_FALSE(std::filesystem::exists(checkpoints + "step-000006"));
  CHECK(std::filesystem::exists(checkpoints + "step-000003"));
}

TEST_CASE("a checkpoint whose files are of different steps is refused") {
  Files files;
  const std::string file = files.write(small_study());
  REQUIRE(call({"run", file, "--out", files.path("a"), "--set", "train.steps=2"}).code == 0);
  REQUIRE(call({"run", file, "--out", files.path("b"), "--set", "train.steps=3"}).code == 0);
  const std::string in_a = files.path("a") + "/checkpoint/small/step-000002/rank-";
  std::filesystem::copy_file(files.path("b") + "/checkpoint/small/step-000003/rank-1.safetensors",
                             in_a + "1.safetensors", std::filesystem::copy_options::overwrite_existing);
  const Called resumed = call({"run", file, "--out", files.path("a"), "--resume"});
  CHECK(resumed.code == 2);
  CHECK(resumed.err.find(in_a + "1.safetensors: belongs to a different checkpoint than " + in_a + "0.safetensors") !=
        std::string::npos);
  std::filesystem::rename(files.path("b") + "/checkpoint/small/step-000003",
                          files.path("b") + "/checkpoint/small/step-000004");
  const Called renamed = call({"run", file, "--out", files.path("b"), "--resume"});
  CHECK(renamed.code == 2);
  CHECK(renamed.err.find("step-000004: was saved with steps = 3, this run has 4: a resumed run must keep it") !=
        std::string::npos);
}

TEST_CASE("a run resumes on a different number of ranks, and notes that it may round differently") {
  Files files;
  const std::string file = files.write(small_study());
  const Called whole = call({"run", file, "--out", files.path("whole"), "--json"});
  REQUIRE(call({"run", file, "--out", files.path("out"), "--set", "train.steps=2"}).code == 0);
  const Called resumed = call({"run", file, "--out", files.path("out"), "--resume", "--json", "--set", "mesh.dp=1",
                               "--set", "train.micro_batches=4"});
  REQUIRE(resumed.code == 0);
  CHECK(resumed.err.find("resumes on a different layout (saved on dp 2 with micro_batches = 2, now 1 rank with 4): the "
                         "losses agree within rounding\n") != std::string::npos);
  const Json losses = summary(whole)["variants"][0]["loss_per_step"];
  const Json rest = summary(resumed)["variants"][0]["loss_per_step"];
  REQUIRE(rest.size() == losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    CHECK(rest[i].get<double>() == close_to(losses[i].get<double>()).epsilon(2e-5));
}

TEST_CASE("--fresh-head resumes with different classes, and only with --resume") {
  Files files;
  const std::string file = files.write(small_study());
  REQUIRE(call({"run", file, "--out", files.path("out"), "--set", "train.steps=2"}).code == 0);
  const std::vector<std::string> more{"run", file, "--out", files.path("out"), "--set", "head.classes=13"};
  const auto with = [](std::vector<std::string> arguments, const std::vector<std::string>& others) {
    arguments.insert(arguments.end(), others.begin(), others.end());
    return call(arguments);
  };
  const std::string before = files.contents("out");
  const Called refused = with(more, {"--resume"});
  CHECK(refused.code == 2);
  CHECK(files.contents("out") == before);
  CHECK(refused.err.find("was saved by a different experiment (head.classes was 9, is 13): only the number of steps") !=
        std::string::npos);
  const Called alone = with(more, {"--fresh-head"});
  CHECK(alone.code == 2);
  CHECK(alone.err.find("--fresh-head requires --resume") != std::string::npos);
  const Called begun = with(more, {"--resume", "--fresh-head"});
  CHECK(begun.code == 0);
  CHECK(begun.err.find("begins a new head of 13 classes\n") != std::string::npos);
  CHECK(begun.err.find("resuming after step 2\n") != std::string::npos);
}

TEST_CASE("a checkpoint of a different experiment, or a damaged one, is refused") {
  Files files;
  const std::string file = files.write(small_study());
  const std::string folder = files.path("out") + "/checkpoint/small/step-000006";
  REQUIRE(call({"run", file, "--out", files.path("out")}).code == 0);
  const std::vector<std::string> resume{"run", file, "--out", files.path("out"), "--resume", "--set", "train.steps=8"};
  std::vector<std::string> changed = resume;
  changed.insert(changed.end(), {"--set", "train.optimizer.lr=0.2"});
  const Called other = call(changed);
  CHECK(other.code == 2);
  CHECK(
      other.err.find("step-000006: was saved by a different experiment (train.optimizer.lr was 0.1, is 0.2): only the "
                     "number of steps, what is saved, the evaluation and the layout over ranks may change") !=
      std::string::npos);
  {
    std::fstream weights(folder + "/rank-1.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    weights.seekp(-5, std::ios::end);
    weights.put('?');
  }
  const std::string before = files.contents("out");
  const Called damaged = call(resume);
  CHECK(damaged.code == 2);
  CHECK(files.contents("out") == before);
  CHECK(damaged.err.find("rank-1.safetensors: is damaged: its checksum differs from the saved one") !=
        std::string::npos);
}

TEST_CASE("a checkpoint that does not fit on the disk is named, and nothing of it stays") {
  Files files;
  const std::string file = files.write(small_study());
  const std::vector<std::string> run{
      "run", file, "--out", files.path("out"), "--set", "model.hidden=[9000]", "--set", "train.steps=1"};
  Called full;
  {
    const test::FileSizeLimit limit(400'000);
    full = call(run);
  }
  CHECK(full.code == 5);
  CHECK(full.err.starts_with("small: small (1 of 1), 2 ranks, 1 step\n"));
  const std::string checkpoints = files.path("out") + "/checkpoint/small";
  CHECK(full.err.find("the checkpoint after 1 step is lost: " + checkpoints + "/step-000001/rank-") !=
        std::string::npos);
  CHECK(full.out.find("small trained all steps and could not be saved:") != std::string::npos);
  CHECK(std::filesystem::is_empty(checkpoints));
  const Json written = Json::parse(read_file(files.path("out/summary.json"), 1 << 20));
  CHECK(written["variants"][0]["status"] == "not_saved");
  CHECK(written["variants"][0]["lost_checkpoints"][0]["steps"] == 1);
}

TEST_CASE("damage to the first file of a checkpoint is not blamed on the second") {
  Files files;
  const std::string file = files.write(small_study());
  REQUIRE(call({"run", file, "--out", files.path("out")}).code == 0);
  const std::string folder = files.path("out") + "/checkpoint/small/step-000006/";
  const std::vector<std::string> resume{"run", file, "--out", files.path("out"), "--resume", "--set", "train.steps=7"};
  std::string first = read_file(folder + "rank-0.safetensors", 1 << 24);
  const std::string sound = first;
  const std::size_t seed = first.find(R"("seed":")");
  REQUIRE(seed != std::string::npos);
  first[seed + 8] = '9';
  write_file_atomically(folder + "rank-0.safetensors", first);
  const Called damaged = call(resume);
  CHECK(damaged.code == 2);
  CHECK(damaged.err.ends_with("heddle: " + folder +
                              "rank-0.safetensors: is damaged: its checksum differs from the saved one\n"));
  write_file_atomically(folder + "rank-0.safetensors", sound);
  write_file_atomically(folder + "rank-0.crc32c", "");
  const Called without = call(resume);
  CHECK(without.code == 2);
  CHECK(without.err.ends_with("heddle: " + folder +
                              "rank-0.crc32c: is damaged: expected a checksum of 8 hexadecimal digits, got \"\"\n"));
  // With one before it, the error says how to resume from that.
  std::filesystem::create_directory(files.path("out") + "/checkpoint/small/step-000004");
  CHECK(call(resume).err.ends_with("got \"\"; the checkpoint before it is step-000004\n"));
  std::filesystem::remove(folder + "rank-0.safetensors");
  CHECK(call(resume).err.ends_with("No such file or directory; the checkpoint before it is step-000004\n"));
}

}  // namespace
}  // namespace heddle::test
