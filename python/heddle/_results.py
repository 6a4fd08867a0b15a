"""Results folders and the files in them, as docs/running.md describes them."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from heddle._checkpoint import Checkpoint, checkpoint

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Results:
    """A results folder. Each file is read when its attribute is first used."""

    path: Path

    @cached_property
    def experiment(self) -> dict[str, Any]:
        """The experiment with every default filled in."""
        return _json(self.path / "experiment.json")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All measurements, as `heddle run --json` prints them."""
        return _json(self.path / "summary.json")

    @property
    def variants(self) -> list[str]:
        """The names of the variants that have ended, in their order."""
        return [variant["name"] for variant in self.summary["variants"]]

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per step of each variant. `losses` and `accuracy` are one column for each set: `accuracy.lfw`."""
        path = self.path / "metrics.jsonl"
        rows = [_json_line(path, number, line) for number, line in _whole_lines(path)]
        return pd.json_normalize(rows)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """The bytes of each variant, rank and category."""
        return _table(self.path / "memory.csv", {"variant": str})

    @cached_property
    def roc(self) -> pd.DataFrame:
        """The points of each evaluated set's curve. FileNotFoundError if no sets were evaluated."""
        return _table(self.path / "roc.csv", {"variant": str, "set": str})

    @cached_property
    def trace(self) -> pd.DataFrame:
        """The spans of all ranks; see the function of this name."""
        return trace(self.path / "trace.json")

    @cached_property
    def schedules(self) -> dict[str, pd.DataFrame]:
        """The pipeline schedule of each variant; see the function `schedule`."""
        if len(self.variants) == 1:
            return {self.variants[0]: schedule(self.path / "schedule.csv")}
        files = {unquote(file.parent.name): file for file in self.path.glob("variants/*/schedule.csv")}
        return {name: schedule(files[name]) for name in self.variants if name in files}

    def checkpoint(self, variant: str | None = None) -> Checkpoint:
        """The newest checkpoint of a variant; without a name, of the only one."""
        folders = {unquote(folder.name): folder for folder in (self.path / "checkpoint").glob("*") if folder.is_dir()}
        if variant is None:
            if len(folders) != 1:
                raise ValueError(f"{self.path}: expected the name of a variant, one of {sorted(folders)}")
            variant = next(iter(folders))
        if variant not in folders:
            raise KeyError(f"{self.path}: no checkpoint of variant {variant!r}, expected one of {sorted(folders)}")
        return checkpoint(folders[variant])


def results(path: PathLike) -> Results:
    """The results folder of a run. FileNotFoundError if there is none."""
    folder = Path(path)
    if not (folder / "experiment.json").is_file():
        raise FileNotFoundError(f"{folder}: expected a results folder, found no experiment.json in it")
    return Results(folder)


_ACTION = re.compile(r"(\d+)([A-Z_]+?)(\d+)")
_ACTION_OF_STAGE = re.compile(r"\d+(UNSHARD|RESHARD|REDUCE_GRAD)")


def schedule(path: PathLike) -> pd.DataFrame:
    """A schedule in the CSV format of PyTorch's pipelining: one row per action, in each rank's order.

    Columns: `rank`, `slot` (the cell's index), `stage`, `action` (F, B, I, W, ..) and `micro_batch`. The two actions of
    an overlapped pair have the same slot. Empty cells, which are idle slots, have no row, nor have UNSHARD, RESHARD and
    REDUCE_GRAD, which have no micro-batch.
    """
    file = Path(path)
    rows: list[tuple[int, int, int, str, int]] = []
    with file.open(newline="") as lines:
        for rank, cells in enumerate(csv.reader(lines)):
            for slot, cell in enumerate(cells):
                pair = cell.strip().removesuffix("OVERLAP_F_B").strip("()")
                for text in pair.split(";") if pair else ():
                    if _ACTION_OF_STAGE.fullmatch(text):
                        continue
                    found = _ACTION.fullmatch(text)
                    if found is None:
                        raise ValueError(f"{file}:{rank + 1}: cell {slot + 1}: expected an action as in 2F0, got {cell!r}")
                    rows.append((rank, slot, int(found[1]), found[2], int(found[3])))
    return pd.DataFrame(rows, columns=["rank", "slot", "stage", "action", "micro_batch"])


def trace(path: PathLike) -> pd.DataFrame:
    """The spans of a timeline: `variant`, `rank`, `track`, `name`, `category`, `begin` and `seconds`, and `bytes` of
    communication. Times are in seconds."""
    events = _json(Path(path))["traceEvents"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    return pd.DataFrame(
        {
            "variant": [e["args"]["variant"] for e in spans],
            "rank": [e["pid"] for e in spans],
            "track": [tracks[e["pid"], e["tid"]] for e in spans],
            "name": [e["name"] for e in spans],
            "category": [e["cat"] for e in spans],
            "begin": [e["ts"] * 1e-6 for e in spans],
            "seconds": [e["dur"] * 1e-6 for e in spans],
            "bytes": pd.array([e["args"].get("bytes") for e in spans], dtype="Int64"),
        }
    )


def embeddings(path: PathLike) -> pd.DataFrame:
    """What `heddle embed --out FILE` wrote: one row per image, whose path is the index, and columns e0, e1, ..

    Parquet needs PyArrow.
    """
    file = Path(path)
    if file.suffix == ".csv":
        return pd.read_csv(file, index_col="image", dtype={"image": str}, keep_default_na=False)
    if file.suffix == ".parquet":
        table = pd.read_parquet(file)
        images = table["image"].tolist()
        rows = np.stack(table["embedding"].tolist())
    else:
        rows = np.load(file, mmap_mode="r")
        lines = file.with_suffix(".txt").read_text(encoding="utf-8").split("\n")[:-1]
        images = [_unescaped(line) for line in lines]
    if rows.ndim != 2 or len(images) != len(rows):
        raise ValueError(f"{file}: expected one row for each of {len(images)} images, got shape {rows.shape}")
    return pd.DataFrame(rows, index=pd.Index(images, name="image", dtype=object), columns=[f"e{i}" for i in range(rows.shape[1])])


def _unescaped(line: str) -> str:
    r"""The path of a line, in which \\ is a backslash and \xNN a byte."""
    path = re.sub(rb"\\(?:x([0-9a-f]{2})|\\)", lambda found: bytes.fromhex((found[1] or b"5c").decode()), line.encode())
    return path.decode("utf-8", "surrogateescape")


def _json(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        try:
            read: dict[str, Any] = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    return read


def _table(path: Path, types: dict[str, Any]) -> pd.DataFrame:
    return pd.read_csv(path, dtype=types, keep_default_na=False)


def _whole_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a file with their numbers, without a last one that a killed run left unfinished."""
    return list(enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1))


def _json_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}:{number}: {error}") from error
    return read
