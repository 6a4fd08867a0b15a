import json
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
