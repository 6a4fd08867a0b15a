// Which mesh an elastic job takes, and the errors of `run --elastic`. tests/faults kills processes of such jobs.
#include "experiments/program/job/elastic.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>

#include "experiments/program/study_checks.h"
#include "framework/error.h"
#include "parallel/transports/processes/tcp/listener.h"
#include "tests/support/environment_variable.h"
#include "tests/support/files/experiment_files.h"
#include "tests/support/message.h"
#include "tests/support/processes/local_job.h"
#include "tests/support/program/called.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

using Json = nlohmann::json;

Json elastic_study() {
  Json experiment = small_study();
  experiment["mesh"] = {{"dp", 4}};
  experiment["train"]["batch"] = 64;
  experiment["elastic"] = {{"meshes", {{{"dp", 2}}, {{"pp", 2}}}}};
  return experiment;
}

struct Chosen {
  MeshConfig mesh;
  int preferred;
};
Chosen chosen_mesh(const std::string& file, const std::vector<std::string>& sets, int processes) {
  Study<Experiment> study = checked(read_study<Experiment>(file, sets));
  const int preferred = choose_mesh(study, processes);
  return {study.variants.front().root.mesh, preferred};
}

}  // namespace

TEST_CASE("elastic: the first mesh that has no more ranks than there are processes, the experiment's own first") {
  Files files;
  const std::string file = files.write(elastic_study());
  const MeshConfig four{.dp = 4};
  const MeshConfig two{.dp = 2};
  for (const auto& [processes, mesh] : {std::pair{5, four}, {4, four}, {3, two}, {2, two}}) {
    CHECK(chosen_mesh(file, {}, processes).mesh == mesh);
    CHECK(chosen_mesh(file, {}, processes).preferred == 4);
  }
  CHECK(chosen_mesh(file, {"mesh.dp=2"}, 4).mesh == two);
  CHECK_THROWS_WITH_AS(chosen_mesh(file, {}, 1),
                       "--elastic: the smallest mesh of small has 2 ranks, and there is 1 process", InputError);
  CHECK_THROWS_WITH_AS(chosen_mesh(file, {"elastic.meshes=[]"}, 3),
                       "--elastic: the smallest mesh of small has 4 ranks, and there are 3 processes", InputError);
}

TEST_CASE("elastic: every mesh must fit the experiment, which has one variant and is saved") {
  Files files;
  Json experiment = elastic_study();
  const std::string file = files.write(experiment);
  CHECK_THROWS_WITH_AS(chosen_mesh(file, {"train.save=false"}, 4),
                       "--elastic: without checkpoints there is nothing to continue from: train.save is false",
                       InputError);
  experiment["variants"] = {{{"name", "a"}}, {{"name", "b"}, {"patch", {{"seed", 2}}}}};
  CHECK_THROWS_WITH_AS(chosen_mesh(files.write(experiment, "variants.json"), {}, 4),
                       "--elastic: expected an experiment with one variant, small has 2", InputError);
  const Called wrong = call({"validate", file, "--set", R"(elastic.meshes=[{"dp":2},{"pp":64}])"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("elastic.meshes[1]: ") != std::string::npos);
}

TEST_CASE("elastic: a process that was started again says where it has looked for its job, whatever leader.txt holds") {
  const Scratch folder;
  const std::filesystem::path results = folder / "out";
  std::filesystem::create_directory(results);
  const std::string file = (results / "leader.txt").string();
  const EnvironmentVariable size("WORLD_SIZE", "2");
  const EnvironmentVariable host("MASTER_ADDR", "127.0.0.1");
  const EnvironmentVariable port("MASTER_PORT", "1");
  const EnvironmentVariable again("HEDDLE_STARTED_AGAIN", "1");
  const EnvironmentVariable time("HEDDLE_RENDEZVOUS_SECONDS", "1");
  const auto message = [&](const char* rank) {
    const EnvironmentVariable number("RANK", rank);
    return message_of<RankFailed>([&] { find_leader(results, [](const std::string&) {}); });
  };
  const std::string within = "HEDDLE_STARTED_AGAIN: no process of the job was found within 1 s: " + file + " names ";
  CHECK(message("0") == within + "none");
  CHECK(message("1") == within + "none, and 127.0.0.1:1 does not respond");
  std::ofstream(file) << "127.0.0.1 1\n";
  CHECK(message("0") == within + "127.0.0.1:1, which does not respond");
  {
    const TcpSocket listening = TcpSocket::listen(0, TcpSocket::resolve("127.0.0.1", 0).host);
    const JobSecret other = JobSecret("another");
    std::ofstream(file) << "127.0.0.1 " << ntohs(listening.local_address().port) << "\n";
    std::jthread leader([&](const std::stop_token& stop) {
      TcpListener listener(listening, other);
      while (!stop.stop_requested()) (void)listener.next({}, TcpSocket::Clock::now() + std::chrono::milliseconds(20));
    });
    CHECK(message("0").ends_with(", which has a HEDDLE_JOB_SECRET, and this process has none"));
  }
  for (const std::string& damaged :
       {std::string("127.0.0.1 70000"), std::string(400, 'x') + " 1", std::string("\0", 1)}) {
    std::ofstream(file) << damaged;
    CHECK(message("0") == within + "none");
  }
  forget_leader(results);
  std::filesystem::create_symlink("/dev/zero", file);
  CHECK(message("0") == within + "none");
}

TEST_CASE(
    "elastic: a process that was started again looks for another leader where the one that it had found is lost") {
  const Scratch folder;
  const EnvironmentVariable size("WORLD_SIZE", "2");
  const EnvironmentVariable rank("RANK", "1");
  const EnvironmentVariable host("MASTER_ADDR", "127.0.0.1");
  const EnvironmentVariable again("HEDDLE_STARTED_AGAIN", "1");
  const EnvironmentVariable time("HEDDLE_RENDEZVOUS_SECONDS", "1");
  const TcpSocket listening = TcpSocket::listen(0, TcpSocket::resolve("127.0.0.1", 0).host);
  const EnvironmentVariable port("MASTER_PORT", std::to_string(ntohs(listening.local_address().port)).c_str());
  const JobSecret none;
  std::jthread leader([&](const std::stop_token& stop) {
    TcpListener listener(listening, none);
    while (!stop.stop_requested()) (void)listener.next({}, TcpSocket::Clock::now() + std::chrono::milliseconds(20));
  });
  int calls = 0;
  std::vector<std::string> notes;
  const auto note = [&](const std::string& what) { notes.push_back(what); };
  const auto lost_twice = [&]() -> Job* {
    if (++calls < 3) throw LeaderLost("it has ended");
    return nullptr;
  };
  CHECK(join_restarted(folder / "out", std::chrono::seconds(60), lost_twice, note) == nullptr);
  CHECK(calls == 3);
  CHECK(notes ==
        std::vector<std::string>(2, "it has ended: this process, which was started again, looks for another one"));
  const auto always_lost = []() -> Job* {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    throw LeaderLost("it has ended");
  };
  CHECK_THROWS_WITH_AS(join_restarted(folder / "out", std::chrono::seconds(0), always_lost, note), "it has ended",
                       RankFailed);
}

TEST_CASE("elastic: a job that restarts before it has prepared its folder does there what its first start was to do") {
  Files files;
  Json experiment = small_study();
  experiment["mesh"] = Json::object();
  const std::string file = files.write(experiment);
  std::vector<std::string> run{"run", file, "--out", files.path("out"), "--resume=auto"};
  REQUIRE(call(run).code == 0);
  run.emplace_back("--elastic");
  const EnvironmentVariable summary("HEDDLE_EARLIER_SUMMARY", "");
  remember_summary(files.path("out"));
  const EnvironmentVariable rank("RANK", "0");
  const EnvironmentVariable size("WORLD_SIZE", "1");
  const EnvironmentVariable host("MASTER_ADDR", "127.0.0.1");
  const EnvironmentVariable port("MASTER_PORT", std::to_string(free_port()).c_str());
  const EnvironmentVariable restarts("HEDDLE_RESTARTS", "1");
  const EnvironmentVariable time("HEDDLE_RESTART_TIME", "0");
  const EnvironmentVariable cause("HEDDLE_RESTART_CAUSE", "rank 1: its process has ended");
  const auto code = [&](const char* asked) {
    const EnvironmentVariable first("HEDDLE_FIRST_START", asked);
    return call(run);
  };
  const Called kept = code("");
  CHECK(kept.code == 2);
  CHECK(kept.err.find("holds a checkpoint of an earlier run") != std::string::npos);
  CHECK(code("--resume").err.find("steps were done") != std::string::npos);
  remember_summary(files.path("out"));
  const Called replaced = code("--force");
  CHECK(replaced.code == 0);
  CHECK(replaced.err.find("steps were done") == std::string::npos);
}

TEST_CASE("elastic: the checksum of a call is that of its experiment and its options, and 0 of a wrong experiment") {
  Files files;
  const std::string file = files.write(elastic_study());
  const std::uint64_t sum = checksum_of_call(file, {}, "--out a");
  CHECK(sum != 0);
  CHECK(checksum_of_call(files.write(elastic_study(), "same.json"), {}, "--out a") == sum);
  CHECK(checksum_of_call(file, {"train.batch=32"}, "--out a") != sum);
  CHECK(checksum_of_call(file, {}, "--out b") != sum);
  CHECK(checksum_of_call(file, {"train.batch=none"}, "--out a") == 0);
}

TEST_CASE("elastic: a process alone is an error, and so is a new head") {
  Files files;
  const std::string file = files.write(elastic_study());
  const Called alone = call({"run", file, "--out", files.path("out"), "--elastic"});
  CHECK(alone.code == 2);
  CHECK(alone.err ==
        "heddle: --elastic: expected a job of processes that are connected by sockets, with RANK, WORLD_SIZE, "
        "MASTER_ADDR "
        "and MASTER_PORT for each\n");
  const Called grown = call({"run", file, "--resume", "--grow-head", "--elastic"});
  CHECK(grown.code == 2);
}

}  // namespace heddle::test
