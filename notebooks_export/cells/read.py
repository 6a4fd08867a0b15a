import io
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

%config InlineBackend.figure_format = "retina"
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True})


class DamagedResults(Exception):
    """A file of the results folder is missing or cannot be read."""


def read_results(name, parse):
    """The result of `parse` on a file's text."""
    try:
        return parse(Path(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedResults(f"{name}: is missing") from None
    except (ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise DamagedResults(f"{name}: cannot be read: {type(error).__name__}: {reason}") from None


def parse_metrics(text):
    """One line per step. A run that was killed may have left half of the last one."""
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        lines.pop()
    return pd.DataFrame([json.loads(line) for line in lines], columns=["variant", "step", "loss", "losses", "seconds", "accuracy"])


def parse_memory(text):
    table = pd.read_csv(io.StringIO(text), dtype={"variant": str}, keep_default_na=False)
    return table.astype({"rank": int, "category": str, "bytes": float})


def parse_summary(text):
    """The variants, each of which has all keys that the figures need."""
    parsed = json.loads(text)["variants"]
    for variant in parsed:
        lacking = sorted(key for key in needed if key not in variant)
        if lacking:
            raise ValueError(f"a variant lacks {', '.join(lacking)}")
    return parsed


needed = ["name", "status", "error", "loss", "step_seconds", "samples_per_second", "device", "batch", "head", "schedule",
          "recompute", "micro_batches", "bubble_fraction", "ideal_speedup", "speedup_over_naive", "share_of_ideal",
          "predicted_seconds", "sent_in_step", "ranks", "evaluation"]
variants = read_results("summary.json", parse_summary)
names = [variant["name"] for variant in variants]
memory = read_results("memory.csv", parse_memory)
metrics = read_results("metrics.jsonl", parse_metrics) if Path("metrics.jsonl").exists() else parse_metrics("")


def plain(name, longest=24):
    """A name as matplotlib shows it: short, and its dollar signs no formulas."""
    short = name if len(name) <= longest else name[: longest // 2 - 1] + ".." + name[-(longest // 2 - 1) :]
    return short.replace("$", r"\$")


def binary_unit(most):
    """The binary unit in which `most` bytes read well, and its size."""
    power = min(int(math.log(max(most, 1), 1024)), 4)
    return ["B", "KiB", "MiB", "GiB", "TiB"][power], 1024**power
