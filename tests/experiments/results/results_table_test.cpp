#include <sstream>

#include <doctest/doctest.h>

#include "experiments/results/progress.h"
#include "experiments/results/table.h"
#include "framework/description/text.h"
#include "tests/support/results/sample_results.h"

namespace heddle::test {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : lines_of(text)) widest = std::max(widest, width_of(line));
  return widest;
}

TEST_CASE("the table shows losses, times, memory by category, the largest over the mean, bytes sent, and accuracy") {
  RunResult run = run_result();
  run.variants[0].ranks[0].sent_bytes = 0;
  CHECK(results_table(run) ==
        R"(variant                loss  step time (ms)  images/s  peak memory (MiB)  max/mean  bytes sent (KiB)
serial   40.5000 -> 20.1250            1000      64.0               10.0      1.00                 0
sharded  40.5000 -> 20.1250             500       128               13.0      1.13              3.91
too_big                   -               -         -                  -         -                 -
too_big ran out of memory: rank 1: out of memory

peak memory of each rank (MiB); other: workspace and communication
rank  total  parameters  gradients  optimizer  activations  other
serial
0      10.0        4.00       3.00       2.00         1.00  0.000
sharded
0      10.0        4.00       3.00       2.00         1.00  0.000
1      11.0        4.00       3.00       2.00         2.00  0.000
2      12.0        4.00       3.00       2.00         3.00  0.000
3      13.0        4.00       3.00       2.00         4.00  0.000

bytes that rank 0 sends in one step (MiB): counted, and by formula in its parts
variant  counted  formula  gradients  statistics  head  other
sharded     21.0     21.0       3.00        4.00  11.0   3.00

accuracy
variant  rank-1 (%)  verification (%)  TAR@FAR=1e-3 (%)  TAR@FAR=1e-4 (%)
serial        99.00     97.50 +- 1.25             90.00             80.00
)");
}

TEST_CASE("sets have a separate table, with the smallest rates for which some of them have enough pairs") {
  RunResult run;
  run.variants = {variant_result("serial", 1, 0.5)};
  Evaluation& evaluation = run.variants[0].evaluation.emplace();
  evaluation.sets = {evaluated_set("faces"), evaluated_set("few")};
  evaluation.sets[0].verified->verification.tar_at_far.push_back({4, 0.5});
  evaluation.sets[1].verified->verification.tar_at_far.resize(1);
  const std::string table = results_table(run);
  CHECK(table.ends_with(R"(
verification of the sets; -: fewer impostor pairs than 1 / FAR
variant    set   accuracy (%)  threshold  TAR@FAR=1e-2 (%)  TAR@FAR=1e-3 (%)  TAR@FAR=1e-4 (%)
serial   faces  87.50 +- 1.25      1.250             90.00             80.00             50.00
serial     few  87.50 +- 1.25      1.250                 -                 -                 -
)"));
  CHECK(table.find("rank-1") == std::string::npos);

  evaluation.sets = {identified_set("gallery")};
  CHECK(results_table(run).ends_with(R"(
identification of the sets' probes; rank-k: the right person is among the k nearest images
variant      set  gallery  rank-1 (%)  rank-5 (%)  rank-10 (%)  rank-20 (%)
serial   gallery     1000       50.00       62.50        75.00       100.00
)"));
}

TEST_CASE("the table fits 100 columns with long names, 16 unequal ranks and large numbers") {
  RunResult run;
  const std::string name = "a_variant_whose_name_says_everything_about_what_it_is_and_then_some_more_for_good_measure_";
  for (const char* const end : {"one", "two", "f\u00FCnf"}) {
    VariantResult variant = variant_result(name + name + end, 16, 123456);
    variant.steps = {step_record(0, -1.23456789e-300, 9), step_record(1, -1.23456789e-300, 123456),
                     step_record(2, -1.23456789e-300, 3 * 123456)};
    for (RankResult& rank : variant.ranks) {
      for (std::int64_t& bytes : rank.peak.bytes)
        bytes = (std::int64_t{1023} << 40) + rank.rank * (std::int64_t{1} << 41);
      rank.sent_bytes = std::int64_t{1} << 52;
    }
    variant.evaluation = evaluation();
    variant.evaluation->verification->tar_at_far = {{3, 1}, {4, 1}, {5, 1}, {6, 1}};
    run.variants.push_back(variant);
  }
  run.variants.push_back(failed_variant(name + name));
  run.variants.back().error = std::string(300, 'x') + " and " + name + name;
  const std::string table = results_table(run);
  CHECK(widest_line(table) <= 100);
  // Shortened in the middle: the ends still distinguish the variants.
  for (const char* const end : {"one ", "two ", "f\u00FCnf "}) CHECK(table.find(end) != std::string::npos);
}

TEST_CASE("a table puts units below its headings before it cuts a name") {
  Grid grid({"variant", "step time (ms)", "peak memory (MiB)", std::string(40, 'h')});
  grid.add({"never on two ranks that ran", "1.00", "2.00", "3"});
  CHECK(grid.to_text() == "variant                      step time  peak memory  " + std::string(40, 'h') + "\n" +
                              "                                  (ms)        (MiB)\n" +
                              "never on two ranks that ran       1.00         2.00  " + std::string(39, ' ') + "3\n");
}

TEST_CASE("a table shortens long names only while they stay different") {
  const std::string common(60, 'x');
  const std::string cell(60, '1');
  Grid grid({"variant", "value"});
  grid.add({common + "_a_" + common, cell});
  grid.add({common + "_b", cell});
  CHECK(grid.to_text().find(common + "_a_") == std::string::npos);
  grid.add({common + "_c_" + common, cell});
  CHECK(grid.to_text().find(common + "_a_" + common) != std::string::npos);
}

TEST_CASE("pipelines have a table of their own: gain over naive, the ideal's share, bubble; and a line that predicts") {
  RunResult run;
  run.variants = {pipeline_variant("naive", "naive", 4, 8, 0.25, 1), pipeline_variant("gpipe", "gpipe", 4, 4, 0.5, 2.5),
                  pipeline_variant("zb_h1, recomputed", "zb_h1", 4, 3, 0.75, 3)};
  run.variants[1].predicted_seconds = {.median = 3.9};
  run.variants[2].pipeline->recompute = "always";
  run.variants[1].pipeline->kept_micro_batches = {2, 2, 2, 2};
  run.variants[1].pipeline->kept_inputs = {0, 0, 0, 0};
  run.variants[2].pipeline->kept_micro_batches = {1, 1, 1, 0.5};
  run.variants[2].pipeline->kept_inputs = {2, 2, 2, 2};
  const std::string table = results_table(run);
  CHECK(table.find(R"(
pipelines of p ranks, m micro-batches: speedup over naive with the same recomputation, and its ideal
variant            p  m  speedup  ideal  share of ideal  bubble
naive              4  2     1.00   1.00           1.000   0.750
gpipe              4  2     2.00   2.50           0.800   0.500
zb_h1, recomputed  4  2        -   3.00               -   0.250

peak memory of each rank)") != std::string::npos);
  CHECK(table.find(R"(
kept for backward at the same time, by the schedule, and activations at peak memory
variant            rank  micro-batches  inputs  samples  activations (MiB)  per sample (KiB)
gpipe                 0              2       -       64               1.00              16.0
gpipe                 1              2       -       64               2.00              32.0
gpipe                 2              2       -       64               3.00              48.0
gpipe                 3              2       -       64               4.00              64.0
zb_h1, recomputed     0              1       2       32               1.00                 -
zb_h1, recomputed     1              1       2       32               2.00                 -
zb_h1, recomputed     2              1       2       32               3.00                 -
zb_h1, recomputed     3            0.5       2       16               4.00                 -
)") != std::string::npos);
  CHECK(table.ends_with(R"(
step time as the schedule predicts it from the costs of the stages
gpipe: predicted 3.90 s, measured 4.00 s (2.5 % apart)
)"));
  run.variants[1].predicted_seconds = {.median = 0.5};
  run.variants[1].device = "plan";
  CHECK(results_table(run).ends_with("\ngpipe: predicted 500 ms, modelled 4.00 s (x 8.0)\n"));
  CHECK(widest_line(table) <= 100);
}

TEST_CASE("a study that is planned in part says which times are planned") {
  RunResult run;
  run.variants = {pipeline_variant("run", "gpipe", 2, 4, 0.5, 1.6), pipeline_variant("plan", "gpipe", 2, 4, 0.5, 1.6)};
  for (VariantResult& variant : run.variants) variant.clock = "virtual";
  run.variants[1].device = "plan";
  CHECK(results_table(run).find("\ntimes are virtual: each rank's own CPU time, and messages by `links`\n"
                                "times on plan are modelled: kernels by `profile`, messages by `links`\n") !=
        std::string::npos);
}

TEST_CASE("a forward pass shows the output of each rank and how busy it was") {
  RunResult run;
  run.variants = {pipeline_variant("m 4", "gpipe", 2, 4, 0.5, 1.6)};
  run.variants[0].pipeline->recompute.clear();
  run.variants[0].pipeline->outputs = {"f32[8,28,28,128]", "f32[8,256]"};
  run.variants[0].ranks[1].busy_in_step = {9, 3, 3};
  CHECK(results_table(run).find(R"(
forward passes: the output of each rank, and the share of the time in which it computes
variant  rank  output of a micro-batch  busy (%)
m 4         0         f32[8,28,28,128]      50.0
m 4         1               f32[8,256]      75.0
)") != std::string::npos);
}

TEST_CASE("neighbouring ranks with equal rows share one") {
  RunResult run;
  run.variants = {variant_result("a", 8, 1)};
  for (RankResult& rank : run.variants[0].ranks) rank = rank_result(rank.rank, rank.rank == 0 ? 9 * mebi : mebi);
  for (RankResult& rank : run.variants[0].ranks) rank.sent_bytes = 7;
  const std::string table = results_table(run);
  CHECK(table.find("\n0  ") != std::string::npos);
  CHECK(table.find("\n1-7  ") != std::string::npos);
  CHECK(table.find("\n2  ") == std::string::npos);
}

TEST_CASE("ranks without measurements, because their processes have ended, do not lower the mean") {
  RunResult run;
  run.variants = {variant_result("a", 3, 1)};
  for (RankResult& rank : run.variants[0].ranks) rank = rank_result(rank.rank, mebi);
  RankResult ended;
  ended.rank = 2;
  run.variants[0].ranks[2] = ended;
  const std::string table = results_table(run);
  CHECK(table.find(" 10.0      1.00 ") != std::string::npos);
  CHECK(table.find("\n0-1    10.0        4.00       3.00       2.00         1.00  0.000\n"
                   "2         -           -          -          -            -      -\n") != std::string::npos);
}

TEST_CASE("variants without measurements have a table, too") {
  RunResult run;
  run.variants = {failed_variant("a")};
  CHECK(results_table(run) == R"(variant  loss  step time (ms)  images/s  peak memory (MiB)  max/mean  bytes sent (MiB)
a           -               -         -                  -         -                 -
a ran out of memory: rank 1: out of memory
)");
}

TEST_CASE("durations read in the unit that fits them") {
  CHECK(format_seconds(0) == "0.00 us");
  CHECK(format_seconds(1.234e-4) == "123 us");
  CHECK(format_seconds(0.0123) == "12.3 ms");
  CHECK(format_seconds(0.9999) == "1.00 s");
  CHECK(format_seconds(45.67) == "45.7 s");
  CHECK(format_seconds(200) == "3 min 20 s");
  CHECK(format_seconds(7500) == "2 h 05 min");
  CHECK(format_seconds(3.6e22) == "10000000000000000000 h");
}

TEST_CASE("text is shortened in its middle and wrapped at spaces, by characters and not by bytes") {
  CHECK(shorten("abcdefgh", 8) == "abcdefgh");
  CHECK(shorten("abcdefgh", 7) == "abc..gh");
  CHECK(shorten("\u00E4\u00F6\u00FC\u00E4\u00F6\u00FC", 5) == "\u00E4\u00F6..\u00FC");
  CHECK(shorten("abc", 2) == "ab");
  CHECK(wrap("one two three\nfour", 8, 2) == "one two\n  three\n  four\n");
  CHECK(wrap("abcdefghij", 4, 1) == "abcd\n efg\n hij\n");
}

/// A clock that the test turns.
struct Clock {
  double seconds = 100;
  std::function<double()> now() {
    return [this] { return seconds; };
  }
};

TEST_CASE("progress writes nothing off a terminal") {
  std::ostringstream out;
  {
    Progress progress(out, Terminal{});
    progress.begin("a", 0, 2, 8);
    progress.step(step_record(0, 1, 1));
    progress.show("evaluating");
  }
  CHECK(out.str().empty());
  CHECK_FALSE(terminal_of(-1).is_terminal);
}

TEST_CASE("progress shows the share of the time in which the steps waited for images") {
  std::ostringstream out;
  Clock clock;
  Progress progress(out, {.is_terminal = true, .colour = false, .columns = 80}, clock.now());
  progress.begin("orl", 0, 20, 8);
  const auto step = [&](std::int64_t index, double wait) {
    out.str("");
    clock.seconds += 1;
    StepRecord record = step_record(index, 1.5, 1);
    record.loader_wait = wait;
    progress.step(record);
    return out.str();
  };
  CHECK(step(0, 0.001).find("loader") == std::string::npos);
  CHECK(step(1, 0.499).starts_with("\rorl  step 2/20  loss 1.5000  8.0 images/s  loader wait 25 %  18.0 s left"));
}

TEST_CASE("progress shows step, loss, images per second and time left, at most ten times per second") {
  std::ostringstream out;
  Clock clock;
  Progress progress(out, {.is_terminal = true, .colour = false, .columns = 80}, clock.now());
  progress.begin("orl", 10, 20, 8);
  const auto step = [&](std::int64_t index, double seconds) {
    out.str("");
    clock.seconds += seconds;
    progress.step(step_record(index, 1.5, seconds));
    return out.str();
  };
  CHECK(step(10, 2) == "\rorl  step 11/20  loss 1.5000  4.0 images/s  18.0 s left");
  CHECK(step(11, 0.05) == "");
  CHECK(step(12, 1.45).starts_with("\rorl  step 13/20  loss 1.5000  6.9 images/s  8.17 s left"));
  CHECK(step(19, 0.01).starts_with("\rorl  step 20/20  loss 1.5000  22.8 images/s  "));
  out.str("");
  progress.clear();
  CHECK(out.str() == "\r" + std::string(55, ' ') + "\r");
  progress.clear();
  CHECK(out.str().size() == 57);
}

TEST_CASE("progress keeps to the terminal's width, and colours nothing but the label") {
  std::ostringstream out;
  Clock clock;
  Progress narrow(out, {.is_terminal = true, .colour = false, .columns = 20}, clock.now());
  narrow.begin("a long label", 0, 20, 8);
  narrow.step(step_record(0, 1, 1));
  CHECK(out.str() == "\ra long la..s 1.0000");
  out.str("");
  Progress colourful(out, {.is_terminal = true, .colour = true, .columns = 80}, clock.now());
  colourful.begin("a", 0, 20, 8);
  colourful.show("evaluating");
  CHECK(out.str() == "\r\x1b[36ma\x1b[0m  evaluating");
}

}  // namespace
}  // namespace heddle::test
