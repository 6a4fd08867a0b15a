// `heddle reproduce`: expressions over a summary, verdicts, errors of claims files, and a real quick run.
#include "experiments/program/reproduce/reproduce.h"

#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "experiments/program/reproduce/expression.h"
#include "experiments/program/reproduce/verdict.h"
#include "tests/support/compare/close_to.h"
#include "tests/support/message.h"
#include "tests/support/program/called.h"
#include "tests/support/program/shipped.h"
#include "tests/support/scratch.h"

namespace heddle::test {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson study() {
  return OrderedJson::parse(R"({"variants": [
    {"name": "p 2, naive", "status": "ok", "loss": {"first": 4, "last": 2.0}, "seconds": {"max": 9, "min": null},
     "ranks": [{"sent": 10, "peak": {"total": 100}}, {"sent": 30, "peak": {"total": 300}}],
     "tar": {"1e-3": 0.5}, "loss_per_step": [4, 3, 2]},
    {"name": "p 2, gpipe", "status": "out_of_memory", "loss": {"first": 4, "last": 2.5}, "seconds": {"max": 3, "min": 1},
     "ranks": [{"sent": 7, "peak": {"total": 50}}], "tar": {"1e-3": 0.25}, "loss_per_step": [4, 3, 2.5]}]})");
}

double number(const std::string& expression) {
  return evaluate(expression, study()).get<double>();
}

std::string refused(const std::string& expression) {
  return message_of<InputError>([&] { evaluate(expression, study()); });
}

Claim claim(std::string value, const std::string& equals, double tolerance = 0) {
  Claim made;
  made.claim = "a claim";
  made.value = std::move(value);
  made.equals = equals;
  made.tolerance = tolerance;
  return made;
}

/// Writes claims for `heddle reproduce` and calls it.
class Claimed {
 public:
  explicit Claimed(const std::string& text) { std::ofstream(folder_ / "study.json") << text; }

  test::Called call(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "reproduce");
    arguments.insert(arguments.end(), {"--claims", (folder_ / ".").string(), "--out", (folder_ / "out").string()});
    return test::call(arguments);
  }
  std::string file() const { return (folder_ / "./study.json").string(); }
  std::filesystem::path operator/(const char* name) const { return folder_ / name; }

 private:
  Scratch folder_;
};

}  // namespace

TEST_CASE("a path of a claim follows keys, selects by name, place and key, and reduces lists") {
  CHECK(number("variants[p 2, naive].loss.last") == 2);
  CHECK(number("variants[1].loss.last") == 2.5);
  CHECK(number("variants[-1].loss_per_step[-1]") == 2.5);
  CHECK(number("variants[p 2, naive].tar[1e-3]") == 0.5);
  CHECK(number("variants[p 2, naive].ranks.sent.sum") == 40);
  CHECK(number("variants[p 2, naive].ranks.peak.total.max_over_mean") == 1.5);
  CHECK(number("variants.ranks.sent.max") == 30);
  CHECK(number("variants[p 2*].ranks.sent.min") == 7);
  CHECK(number("variants.ranks.count") == 3);
  CHECK(number("variants.loss.last.mean") == 2.25);
  CHECK(number("variants.loss.last.spread") == 0.2);
  // A key is preferred to a reduction of its name.
  CHECK(number("variants[p 2, naive].seconds.max") == 9);
  CHECK(number("variants.seconds.max.min") == 3);
  CHECK(evaluate("variants[0].status", study()) == "ok");
}

TEST_CASE("a claim computes with numbers and paths") {
  CHECK(number("1 + 2 * 3 - 4 / 2") == 5);
  CHECK(number("(1 + 2) * -3e0") == -9);
  CHECK(number("variants[0].loss.first / variants[1].loss.last - 1") == close_to(0.6));
  CHECK(number("2e-5*variants[0].loss.last") == close_to(4e-5));
}

TEST_CASE("an expression that names no value, or several, is an error") {
  CHECK(refused("variants[missing].loss.last") == "the summary has no variants[missing]");
  CHECK(refused("variants[0].los.last") == "the summary has no variants[0].los");
  CHECK(refused("variants[0].seconds.min") == "the summary has no variants[0].seconds.min");
  CHECK(refused("variants.loss.last") ==
        "variants.loss.last is not a single value: a list needs a reduction, such as .max");
  CHECK(refused("variants[0].loss") ==
        "variants[0].loss is not a single value: a list needs a reduction, such as .max");
  CHECK(refused("variants.status.max") == "the summary has no number at variants.status.max");
  CHECK(refused("variants[0].status + 1") == "variants[0].status + 1: expected numbers around +");
  const auto syntax = [](const char* text) { return message_of<InputError>([&] { check_syntax(text); }); };
  CHECK(syntax("a.b[c") == "expected a selection that ends with ] at character 4 of \"a.b[c\"");
  CHECK(syntax("(1 + 2") == "expected \")\" at character 7 of \"(1 + 2\"");
  CHECK(syntax("1 2") == "expected the end at character 3 of \"1 2\"");
  CHECK(syntax("a..b") == "expected a key at character 3 of \"a..b\"");
  CHECK(syntax("") == "expected a number, a path, 'text' or \"(\" at character 1 of \"\"");
  CHECK(syntax("'ok") == "expected a text that ends with ' at character 1 of \"'ok\"");
}

TEST_CASE("a verdict follows from the bound and its tolerance, and fails if there is no value") {
  const auto holds = [](const Claim& c) { return verdict_on(c, study()).holds; };
  CHECK(holds(claim("variants[0].loss.last", "2")));
  CHECK_FALSE(holds(claim("variants[0].loss.last", "2.01")));
  CHECK(holds(claim("variants[0].loss.last", "2.01", 0.01)));
  CHECK(holds(claim("variants[1].status", "'out_of_memory'")));
  CHECK_FALSE(holds(claim("variants[0].status", "'out_of_memory'")));
  CHECK_FALSE(holds(claim("variants[0].status", "0")));
  CHECK_FALSE(holds(claim("variants[0].seconds.min", "0")));
  CHECK_FALSE(holds(claim("1 / 0", "1 / 0")));
  Claim bound = claim("variants[0].loss.last", "");
  bound.at_most = "1.9";
  CHECK_FALSE(holds(bound));
  bound.tolerance = 0.1;
  CHECK(holds(bound));
  bound.at_most.clear();
  bound.at_least = "2.1";
  CHECK(holds(bound));
  bound.tolerance = 0;
  CHECK_FALSE(holds(bound));
}

TEST_CASE("the table of verdicts shows claim, expected, got and verdict") {
  Claim bound = claim("variants[0].loss.last", "");
  bound.claim = "the loss falls";
  bound.tolerance = 1e-9;
  bound.at_most = "variants[0].loss.first / 4";
  const std::vector<Verdict> verdicts{verdict_on(claim("variants.ranks.sent.max", "30", 0.05), study()),
                                      verdict_on(bound, study()),
                                      verdict_on(claim("variants[2].loss.last", "1"), study())};
  CHECK(verdict_table(verdicts) ==
        R"(claim            expected                             got  verdict
a claim         30 +- 5 %                              30    holds
the loss falls       <= 1                               2    FAILS
a claim                 1  the summary has no variants[2]    FAILS
)");
}

TEST_CASE("the table of verdicts does not cut a long claim") {
  const std::string words =
      "gathered: rank 0 over the others, bytes: logits and gradient of all of the classes less its own";
  CHECK(verdict_table(std::vector<Verdict>{{.claim = words, .expected = "1 +- 1 %", .got = "1", .holds = true}})
            .find(words + "  1 +- 1 %    1    holds\n") != std::string::npos);
}

TEST_CASE("reproduce runs the commands of a claims file and ends with 1 where a claim fails") {
  const std::string file = test::experiment_file("sparse_gradient");
  const auto claims = [&](const std::string& bound) {
    return R"({"shows": "bytes", "seconds": 1, "quick_seconds": 1, "checks": [
      {"command": "plan )" +
           file + R"(", "claims": [
        {"claim": "all ranks send", "value": "variants[dense].ranks.sent_bytes.min", "at_least": ")" +
           bound + R"("},
        {"claim": "only in the quick run", "value": "1", "equals": "2", "when": "quick"}]},
      {"command": "schedule gpipe --stages 4 --micro-batches 4", "claims": [
        {"claim": "the bubble is 3/7", "value": "span_bubble", "equals": "3 / 7", "tolerance": 1e-9}]}]})";
  };
  const Claimed holding(claims("1"));
  const test::Called held = holding.call({"--all"});
  CHECK(held.code == 0);
  CHECK(held.out.find("study: bytes\n./heddle plan " + file + "\n") == 0);
  CHECK(held.out.find("\nthe bubble is 3/7") != std::string::npos);
  CHECK(held.out.ends_with("1 experiment: 2 claims hold, 0 fail\n"));
  CHECK(std::filesystem::exists(holding / "out/study/0/summary.json"));
  const Claimed failing(claims("1e12"));
  const test::Called failed = failing.call({"study"});
  CHECK(failed.code == 1);
  CHECK(failed.out.ends_with("1 experiment: 1 claims hold, 1 fail (study)\n"));
  // For a single experiment, the run's own table is printed, too.
  CHECK(failed.out.find("\npeak memory of each rank (") != std::string::npos);
  CHECK(held.out.find("\npeak memory of each rank (") == std::string::npos);
  CHECK(failing.call({"study", "--quick"}).out.find("only in the quick run") != std::string::npos);
}

TEST_CASE("a command with an unexpected exit code fails, and so do its claims, without an old summary") {
  const Claimed claims(R"({"shows": "x", "seconds": 1, "quick_seconds": 1, "checks": [
    {"command": "plan no/such.json", "claims": [{"claim": "runs", "value": "variants.count", "equals": "1"}]}]})");
  std::filesystem::create_directories(claims / "out/study/0");
  std::ofstream(claims / "out/study/0/summary.json") << R"({"variants": [{}]})";
  const test::Called called = claims.call({"study"});
  CHECK(called.code == 1);
  CHECK(called.err == "heddle: no/such.json: cannot be read: No such file or directory\n");
  CHECK(called.out.find(R"(
claim              expected                          got  verdict
exit code of plan         0                            2    FAILS
runs                      1  the summary has no variants    FAILS
)") != std::string::npos);
}

TEST_CASE("an experiment whose data are not shipped is not run, and its data are named") {
  const Claimed claims(R"({"shows": "x", "seconds": 1, "quick_seconds": 1, "needs_data": "orl_faces", "checks": [
    {"command": "run a.json", "claims": [{"claim": "runs", "value": "variants.count", "equals": "1"}]}]})");
  const test::Called all = claims.call({"--quick"});
  CHECK(all.code == 0);
  CHECK(all.out ==
        "0 experiments: 0 claims hold, 0 fail\nnot run: study: needs --data DIR, the folder that holds orl_faces\n");
  const test::Called named = claims.call({"study"});
  CHECK(named.code == 2);
  CHECK(named.err == "heddle: reproduce: study needs --data DIR, the folder that holds orl_faces\n");
  const test::Called given = claims.call({"study", "--data", "faces"});
  CHECK(given.out.find("./heddle run a.json --set data_folder=faces\n") != std::string::npos);
}

TEST_CASE("errors of claims files name the place and the expected value") {
  const auto error = [](const std::string& check) {
    const Claimed claims(R"({"shows": "x", "seconds": 1, "quick_seconds": 1, "checks": [)" + check + "]}");
    const test::Called called = claims.call({});
    CHECK(called.code == 2);
    const std::string front = "heddle: " + claims.file() + ": ";
    REQUIRE(called.err.starts_with(front));
    std::string rest = called.err.substr(front.size());
    for (std::size_t at = 0; (at = rest.find(claims.file())) != std::string::npos;)
      rest.replace(at, claims.file().size(), "(FILE)");
    return rest;
  };
  CHECK(
      error(R"({"command": "plan a.json", "claims": [], "exit": 3})") ==
      "/checks/0/claims: expected a list of at least 1 object, got an empty list\n"
      "(FILE): /checks/0/exit: unknown key; expected \"command\", \"quick\", \"when\", \"exit_code\" or \"claims\"\n");
  CHECK(error(R"({"command": "bench", "claims": [{"claim": "a", "value": "1", "equals": "1"}]})") ==
        "/checks/0/command: expected a command that begins with \"run\", \"plan\" or \"schedule\", got \"bench\"\n");
  CHECK(error(R"({"command": "plan a.json", "claims": [{"claim": "a", "value": "1"}]})") ==
        "/checks/0/claims/0: expected one of \"equals\", \"at_least\" and \"at_most\", got none\n");
  CHECK(
      error(R"({"command": "plan a.json", "claims": [{"claim": "a", "value": "1", "equals": "1", "at_most": "2"}]})") ==
      "/checks/0/claims/0: expected one of \"equals\", \"at_least\" and \"at_most\", got 2\n");
  CHECK(error(R"({"command": "plan a.json", "claims": [{"claim": "a", "value": "b c", "equals": "1"}]})") ==
        "/checks/0/claims/0/value: expected the end at character 3 of \"b c\"\n");
}

TEST_CASE("reproduce without a name lists the experiments with their times") {
  const Claimed claims(R"({"shows": "equal losses", "seconds": 60, "quick_seconds": 5.5, "checks": [
    {"command": "run a.json", "claims": [{"claim": "runs", "value": "variants.count", "equals": "1"}]}]})");
  CHECK(claims.call({}).out ==
        R"(experiment          time   --quick  what it shows
study             60.0 s    5.50 s  equal losses
all               60.0 s    5.50 s
(times on two cores)

./heddle reproduce NAME runs one of them, --all runs all; --quick shortens each to seconds
)");
  const test::Called unknown = claims.call({"studdy"});
  CHECK(unknown.code == 2);
  CHECK(unknown.err == "heddle: reproduce: no experiment \"studdy\"; did you mean \"study\"?\n");
  CHECK(claims.call({"study", "--all"}).err ==
        "heddle: reproduce: expected the name of an experiment or --all, got both\n");
  CHECK(test::call({"reproduce", "--claims", "no/claims"}).err ==
        "heddle: no/claims: expected the claims of the shipped experiments; run this in Heddle's own folder\n");
}

TEST_CASE("every shipped experiment has claims, and every claims file an experiment") {
  std::vector<std::string> experiments;
  for (const std::string& file : test::shipped()) experiments.push_back(std::filesystem::path(file).stem().string());
  std::vector<std::string> claimed;
  const auto folder = std::filesystem::path(test::experiment_file("quickstart")).parent_path();
  for (const Claims& claims : read_all_claims(folder / "claims")) {
    claimed.push_back(claims.name);
    CHECK(claims.shows.size() <= 70);
    for (const Check& check : claims.checks)
      CHECK((check.command.starts_with("schedule") ||
             check.command.find(fmt::format(" experiments/{}.json", claims.name)) != std::string::npos));
  }
  CHECK(claimed == experiments);
}

}  // namespace heddle::test
