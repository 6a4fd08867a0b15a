"""Reads a results folder with the readers of those who made its formats, and counts what they lose.

usage: telemetry_test.py RESULTS      TensorBoard's reader must be importable; torch's and Perfetto's are used where they are
"""

import collections
import csv
import json
import math
import pathlib
import sys
import urllib.parse

folder = pathlib.Path(sys.argv[1])
passed = 0


def tensorboard():
    """Every number of metrics.jsonl arrives, in f32, with its step and its time."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    wanted = collections.defaultdict(dict)
    keys = {"loss": "loss", "learning_rate": "learning_rate", "gradient_norm": "gradient_norm", "loss_scale": "loss_scale",
            "samples_per_second": "images_per_second"}
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        numbers = {tag: line[key] for key, tag in keys.items() if line[key] is not None}
        numbers |= {f"loss/{name}": value for name, value in line.get("losses", {}).items()}
        numbers |= {f"accuracy/{name}": value for name, value in line.get("accuracy", {}).items()}
        for tag, value in numbers.items():
            wanted[line["variant"]][tag, line["step"]] = (value, line["time"])
    events = 0
    for path in sorted((folder / "tensorboard").iterdir()):
        reader = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
        got = {(tag, event.step): (event.value, event.wall_time)
               for tag in reader.Tags()["scalars"] for event in reader.Scalars(tag)}
        own = wanted.pop(urllib.parse.unquote(path.name))
        assert got.keys() == own.keys(), (path, got.keys() ^ own.keys())
        for key, (value, time) in own.items():
            assert math.isclose(got[key][0], value, rel_tol=1e-6) and abs(got[key][1] - time) < 1, (path, key, got[key], value)
        events += len(got)
    assert not wanted, wanted.keys()
    return f"{events} numbers"


def spans_of(trace):
    tracks = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            begin = round(event["ts"] * 1000)
            tracks[event["pid"], event["tid"]].append((begin, begin + round(event["dur"] * 1000)))
    return tracks


def perfetto_rule():
    """Perfetto keeps slices of one track that lie within each other or apart, and drops all others."""
    tracks = spans_of(json.loads((folder / "trace.json").read_text()))
    for track, spans in tracks.items():
        around = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while around and around[-1] <= begin:
                around.pop()
            assert not around or end <= around[-1], (track, begin, end, around[-1])
            around.append(end)
    return f"{sum(map(len, tracks.values()))} slices on {len(tracks)} tracks"


def perfetto():
    """Its own processor keeps all of them, and reports no error about them."""
    from perfetto.trace_processor import TraceProcessor

    try:
        processor = TraceProcessor(trace=str(folder / "trace.json"))
    except Exception as error:
        raise ImportError(f"the processor does not start: {type(error).__name__}") from error
    slices = next(iter(processor.query("select count(*) as n from slice"))).n
    errors = [(row.name, row.value) for row in processor.query("select name, value from stats where severity = 'error' and value > 0")]
    wanted = sum(map(len, spans_of(json.loads((folder / "trace.json").read_text())).values()))
    assert slices == wanted and not errors, (slices, wanted, errors)
    return f"{slices} slices"


def torch_schedule():
    """Each cell is an action of torch.distributed.pipelining, which writes it back."""
    from torch.distributed.pipelining.schedules import _Action

    cells = 0
    for path in [folder / "schedule.csv", *folder.glob("variants/*/schedule.csv")]:
        with path.open(newline="") as rows:
            for cell in (cell.strip() for row in csv.reader(rows) for cell in row):
                if cell:
                    assert str(_Action.from_str(cell)) == cell, (path, cell)
                    cells += 1
    return f"{cells} actions"


for check in (tensorboard, perfetto_rule, perfetto, torch_schedule):
    try:
        print(f"{check.__name__}: {check()}")
        passed += 1
    except ImportError as error:
        print(f"{check.__name__}: not run: {error}")
print(f"{passed} passed, 0 failed")
