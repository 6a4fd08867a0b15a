#include "notebooks_export/cells.h"

#include <utility>

#include "notebooks_export/head_cells.h"
#include "notebooks_export/pipeline_cells.h"
#include "notebooks_export/timeline_cells.h"

namespace heddle {

namespace {

constexpr const char* read_results = R"python(import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

%config InlineBackend.figure_format = "retina"
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True})

summary = json.loads(Path("summary.json").read_text(encoding="utf-8"))
variants = summary["variants"]
names = [variant["name"] for variant in variants]
memory = pd.read_csv("memory.csv", dtype={"variant": str}, keep_default_na=False)
metrics_file = Path("metrics.jsonl")
lines = metrics_file.read_text(encoding="utf-8").splitlines() if metrics_file.exists() else []
metrics = pd.DataFrame([json.loads(line) for line in lines], columns=["variant", "step", "loss", "seconds"])


def plain(name, longest=24):
    """A name as matplotlib shows it: short, and its dollar signs no formulas."""
    short = name if len(name) <= longest else name[: longest // 2 - 1] + ".." + name[-(longest // 2 - 1) :]
    return short.replace("$", r"\$")


def binary_unit(most):
    """The binary unit in which `most` bytes read well, and its size."""
    power = min(int(math.log(max(most, 1), 1024)), 4)
    return ["B", "KiB", "MiB", "GiB", "TiB"][power], 1024**power
)python";

constexpr const char* overview = R"python(def percent(share):
    return math.nan if share is None else 100 * share


totals = memory.groupby(["variant", "rank"])["bytes"].sum()
rows = []
for variant in variants:
    ranks = totals.get(variant["name"], pd.Series(dtype=float))
    evaluation = variant["evaluation"] or {}
    verification = evaluation.get("verification") or {}
    rows.append(
        {
            "variant": variant["name"],
            "status": variant["status"],
            "first loss": variant["loss"]["first"],
            "last loss": variant["loss"]["last"],
            "s a step": variant["step_seconds"]["median"],
            "images/s": variant["samples_per_second"],
            "over naive": variant["speedup_over_naive"],
            "ideal": variant["ideal_speedup"],
            "share of it, %": percent(variant["share_of_ideal"]),
            "bubble, %": percent(variant["bubble_fraction"] if variant["schedule"] else None),
            "largest rank, MiB": ranks.max() / 2**20,
            "largest / mean": ranks.max() / ranks.mean(),
            "sent, MiB": sum(rank["sent_bytes"] for rank in variant["ranks"]) / 2**20,
            "rank-1, %": percent(evaluation.get("rank1")),
            "verification, %": percent(verification.get("accuracy")),
        }
    )
table = pd.DataFrame(rows).set_index("variant").dropna(axis="columns", how="all")
table.style.format(precision=4, na_rep="-", formatter={"images/s": "{:.1f}", "over naive": "{:.2f}", "ideal": "{:.2f}",
    "share of it, %": "{:.1f}", "bubble, %": "{:.1f}", "largest rank, MiB": "{:.1f}", "largest / mean": "{:.2f}",
    "sent, MiB": "{:.1f}", "rank-1, %": "{:.2f}", "verification, %": "{:.2f}"})
)python";

constexpr const char* errors = R"python(for variant in variants:
    if variant["status"] != "ok":
        print(f"{variant['name']}: {variant['status']}: {variant['error']}")
)python";

constexpr const char* memory_figure = R"python(colours = {
    "parameters": "#0072B2",
    "gradients": "#56B4E9",
    "optimizer": "#009E73",
    "activations": "#E69F00",
    "workspace": "#999999",
    "communication": "#D55E00",
}
most_bars = 40
measured = [name for name in names if (memory["variant"] == name).any()]
hidden = measured[most_bars:]
measured = measured[:most_bars]
if measured:
    unit, size = binary_unit(totals.max())
    columns = min(len(measured), 3)
    rows = math.ceil(len(measured) / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(max(3.2 * columns, 5), 3.2 * rows), sharey=True, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(measured) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, measured):
        ranks = memory[memory["variant"] == name].pivot(index="rank", columns="category", values="bytes")
        below = pd.Series(0.0, index=ranks.index)
        for category, colour in colours.items():
            axis.bar(ranks.index, ranks[category] / size, bottom=below, color=colour, label=category)
            below += ranks[category] / size
        mean = below.mean()
        axis.axhline(mean, color="black", linewidth=1, linestyle=":", label="mean of the ranks")
        status = variants[names.index(name)]["status"]
        title = plain(name) if status == "ok" else f"{plain(name)} ({status})"
        axis.set_title(f"{title}\nlargest / mean {below.max() / mean:.2f}" if mean > 0 else title)
        axis.set_xlabel("rank")
        axis.set_xticks(ranks.index[:: math.ceil(len(ranks) / 16)])
        centre, half = (ranks.index.min() + ranks.index.max()) / 2, max(len(ranks), 3) / 2
        axis.set_xlim(centre - half, centre + half)
        axis.grid(axis="y", alpha=0.3)
    axes[0, 0].set_ylim(0, max(totals.max() / size, 1e-9) * 1.06)
    for row in axes:
        row[0].set_ylabel(f"memory, {unit}")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes[0, -1].legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    plt.show()
    if hidden:
        print(f"{len(hidden)} more variants are in memory.csv.")
else:
    print("No variant got as far as measuring its memory.")
)python";

constexpr const char* loss_figure = R"python(curves = metrics.dropna(subset=["loss"])
if len(curves):
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    drawn = [name for name in names if (curves["variant"] == name).any()]
    for i, name in enumerate(drawn):
        curve = curves[curves["variant"] == name]
        # Of a long run the steps are a thin line, and their mean over a hundredth of it a thick one.
        stretch = max(len(curve) // 100, 1)
        if stretch > 1:
            axis.plot(curve["step"], curve["loss"], color=f"C{i}", linewidth=0.4, alpha=0.25)
        mean = curve["loss"].rolling(stretch, center=True, min_periods=1).mean()
        # Variants may agree to the last digit: the earlier lines are wider, so that they show below the later ones.
        axis.plot(curve["step"], mean, color=f"C{i}", label=plain(name), marker="." if len(curve) == 1 else None,
                  linewidth=1.5 + 2.5 * (len(drawn) - 1 - i) / max(len(drawn) - 1, 1))
    axis.set_title("Loss, mean over the global batch" + (f" and over {stretch} steps" if stretch > 1 else ""))
    axis.set_xlabel("step")
    axis.set_ylabel("loss")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    plt.show()
else:
    print("No step has a loss.")
)python";

constexpr const char* time_figure =
    R"python(timed = [variant for variant in variants if variant["samples_per_second"] is not None]
hidden = timed[most_bars:]
timed = timed[:most_bars]
if timed:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 1.4 + 0.5 * len(timed)), sharey=True, layout="constrained")
    labels = [plain(variant["name"]) for variant in timed]
    seconds = pd.DataFrame([variant["step_seconds"] for variant in timed]) * 1000
    spread = [seconds["median"] - seconds["min"], seconds["max"] - seconds["median"]]
    left.barh(range(len(timed)), seconds["median"], xerr=spread, color="#56B4E9", capsize=3)
    left.set_yticks(range(len(timed)), labels)
    left.invert_yaxis()
    left.set_xlabel("ms")
    left.set_title("Time a step: median, least to most")
    bars = right.barh(range(len(timed)), [variant["samples_per_second"] for variant in timed], color="#009E73")
    right.bar_label(bars, fmt="%.1f", padding=3)
    right.margins(x=0.15)
    right.set_xlabel("images a second")
    right.set_title("Throughput")
    for axis in (left, right):
        axis.grid(axis="x", alpha=0.3)
    plt.show()
    if hidden:
        print(f"{len(hidden)} more variants are in summary.json.")
else:
    print("No step was timed.")
)python";

}  // namespace

std::vector<NotebookCell> results_cells(const StudyFigures& figures) {
  std::vector<NotebookCell> cells{
      {.id = "read", .is_code = true, .source = read_results},
      {.id = "overview", .is_code = true, .source = overview},
      {.id = "errors", .is_code = true, .source = errors},
  };
  const auto append = [&cells](std::vector<NotebookCell> more) {
    for (NotebookCell& cell : more) cells.push_back(std::move(cell));
  };
  if (figures.head_sizes) append(head_cells());
  append(timeline_cells());
  if (figures.pipelines) append(pipeline_cells());
  append({
      {.id = "memory-text",
       .is_code = false,
       .source = "## Memory\n\nWhat each rank held at the moment when it held the most, by category."},
      {.id = "memory", .is_code = true, .source = memory_figure},
      {.id = "loss-text", .is_code = false, .source = "## Loss"},
      {.id = "loss", .is_code = true, .source = loss_figure},
      {.id = "time-text",
       .is_code = false,
       .source = "## Time\n\nThe first step is left out: it also builds the kernels."},
      {.id = "time", .is_code = true, .source = time_figure},
  });
  return cells;
}

}  // namespace heddle
