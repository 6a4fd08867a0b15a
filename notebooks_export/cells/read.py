import html
import io
import json
import math
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import HTML, display

# Colours that readers with colour-blindness tell apart (Okabe and Ito 2008), on white and on black; lines of other
# styles where there are more curves than colours.
shades = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8F63B8", "#777777"]
strokes = ["-", "--", "-.", ":"]
page_width = 7.5  # inches, of every figure
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "font.size": 10,
                     "axes.titlesize": 10, "axes.prop_cycle": plt.cycler(color=shades), "legend.frameon": False,
                     "legend.fontsize": 9, "svg.hashsalt": "heddle", "figure.constrained_layout.use": True})


def style_of(i):
    """The colour and the stroke of curve i."""
    return {"color": shades[i % len(shades)], "linestyle": strokes[i // len(shades) % len(strokes)]}


def width_of(i, count, extra=2.5):
    """The width of line i of `count`: curves may agree to the last digit, and the earlier ones show below the later."""
    return 1.5 + extra * (count - 1 - i) / max(count - 1, 1)


def legend_above(axis, *handles_and_labels):
    """A legend above an axis, where it hides no data, in as many columns as its labels leave room for."""
    handles, labels = handles_and_labels or axis.get_legend_handles_labels()
    columns = max(1, 84 // (max(map(len, labels), default=1) + 7))
    axis.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, ncols=columns)


def legend_of_all(figure, handles, labels, columns):
    """A legend above all axes of a figure, whose title, of empty lines, makes room for it."""
    figure.suptitle("\n" * math.ceil(len(labels) / columns), fontsize=9)
    figure.legend(handles, labels, loc="upper left", ncols=columns)


def figure_html(figure, name, caption):
    """A figure as part of a page. It is also written to figures/, as SVG and PNG on white, for a paper."""
    folder = Path("figures")
    folder.mkdir(exist_ok=True)
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata={"Date": None}, transparent=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=200)
    plt.close(figure)
    # Black becomes the page's colour of text, which is white on dark screens; ids are made different from those of other
    # figures, and the style, which would apply to the whole page, goes.
    drawn = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", svg.getvalue(), flags=re.DOTALL)
    drawn = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", drawn[drawn.index("<svg") :])
    drawn = drawn.replace("#000000", "currentColor")
    label = html.escape(caption)
    drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" fill="currentColor" stroke-linejoin="round" ', 1)
    links = ", ".join(f'<a href="figures/{name}.{kind}">{kind.upper()}</a>' for kind in ("svg", "png"))
    return f'<figure><div class="wide">{drawn}</div><figcaption>{label} ({links})</figcaption></figure>'


def show_figure(figure, name, caption):
    display(HTML(figure_html(figure, name, caption)))


class DamagedResults(Exception):
    """A file of the results folder is missing or cannot be read."""


def read_results(name, parse):
    """The result of `parse` on a file's text."""
    try:
        return parse(Path(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedResults(f"{name}: is missing") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise DamagedResults(f"{name}: cannot be read: {type(error).__name__}: {reason}") from None


def parse_metrics(text):
    """One line per step. A run that was killed may have left half of the last one."""
    lines = text.split("\n")[:-1]  # names may have other characters that end lines
    return pd.DataFrame([json.loads(line) for line in lines], columns=["variant", "step", "loss", "losses", "accuracy", "seconds"])


def parse_memory(text):
    table = pd.read_csv(io.StringIO(text), dtype={"variant": str}, keep_default_na=False)
    return table.astype({"rank": int, "category": str, "bytes": float})


def parse_budgets(text):
    """The bytes that a rank of a variant may hold; 0 is no bound."""
    experiment = json.loads(text)
    patches = {each["name"]: each["patch"] for each in experiment.get("variants", [])}

    def budget_of(name, rank):
        patch = patches.get(name, {})
        listed = (experiment.get("ranks") or {}).get("memory_budget")
        listed = (patch.get("ranks") or {}).get("memory_budget", listed) or []
        common = patch.get("memory_budget", experiment.get("memory_budget")) or 0
        return listed[rank] if rank < len(listed) else common

    return budget_of


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

budget_of = read_results("experiment.json", parse_budgets) if Path("experiment.json").exists() else lambda name, rank: 0


def plain(name, longest=24):
    """A name as matplotlib shows it: short, its dollar signs no formulas, and not left out for a leading underscore."""
    short = name if len(name) <= longest else name[: longest // 2 - 1] + ".." + name[-(longest // 2 - 1) :]
    return (" " if short.startswith("_") else "") + short.replace("$", r"\$")


def binary_unit(most):
    """The binary unit in which `most` bytes read well, and its size."""
    power = min(int(math.log(max(most, 1), 1024)), 4)
    return ["B", "KiB", "MiB", "GiB", "TiB"][power], 1024**power
