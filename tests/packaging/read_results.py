"""Reads a results folder with the package `heddle`, and compares what it gets with the files.

usage: read_results.py RESULTS
"""

import json
import os
import pathlib
import sys

import numpy as np

import heddle

folder = pathlib.Path(sys.argv[1])
run = heddle.results(folder)
assert run.variants == ["serial", "two halves, sharded", "pipeline"], run.variants
assert run.experiment["name"] == run.summary["name"] == "small"

lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
assert len(run.metrics) == len(lines) == 18
for variant in run.summary["variants"]:
    own = run.metrics[run.metrics["variant"] == variant["name"]]
    assert own["loss"].tolist() == variant["loss_per_step"], variant["name"]
    assert own["step"].tolist() == list(range(6))

for variant in run.summary["variants"]:
    for rank in variant["ranks"]:
        own = run.memory[(run.memory["variant"] == variant["name"]) & (run.memory["rank"] == rank["rank"])]
        assert own["bytes"].sum() == rank["peak_bytes"]["total"], (variant["name"], rank)
assert set(run.roc["set"]) == {"drawn"} and set(run.roc["variant"]) == set(run.variants)

events = json.loads((folder / "trace.json").read_text())["traceEvents"]
assert len(run.trace) == sum(event["ph"] == "X" for event in events)
assert (run.trace["seconds"] >= 0).all() and set(run.trace["rank"]) == {0, 1}
assert run.trace.loc[run.trace["category"] == "compute", "bytes"].isna().all()

pipeline = run.schedules["pipeline"]
assert list(pipeline.columns) == ["rank", "slot", "stage", "action", "micro_batch"]
computed = pipeline[pipeline["action"].isin(["F", "B"])]
assert len(computed) == 2 * 2 * 4 and (computed["rank"] == computed["stage"]).all()
overlapped = folder / "overlapped.csv"
overlapped.write_text("0F0,,(0F1;1B0)OVERLAP_F_B\n1F0,1SEND_B0\n")
assert heddle.schedule(overlapped).values.tolist() == [
    [0, 0, 0, "F", 0], [0, 2, 0, "F", 1], [0, 2, 1, "B", 0], [1, 0, 1, "F", 0], [1, 1, 1, "SEND_B", 0]]

# The same training on other ranks has the same tensors, to rounding, in whatever parts they are stored.
serial = run.checkpoint("serial")
assert serial.steps == 6 and serial.experiment["head"]["classes"] == 12
assert serial["head.weight"].shape == serial.shape("head.weight") == (12, 16)
for name in ("pipeline", "two halves, sharded"):
    other = run.checkpoint(name)
    assert list(other) == list(serial), name
    for tensor in serial:
        np.testing.assert_allclose(other[tensor], serial[tensor], rtol=1e-3, atol=1e-4, err_msg=f"{name}: {tensor}")

# A range of a box's elements, and bf16, whose upper half of an f32 numpy lacks.
parts = folder / "parts" / "step-000003"
parts.mkdir(parents=True)
for rank, (elements, text) in enumerate([((0x3F80, 0x4000, 0x4040), "[0,3]"), ((0x4080,), "[3,1]")]):
    header = {"__metadata__": {"ranks": "2", "steps": "3", "part of w": f"[2,3] at [0,1] size [2,2] elements {text}"},
              "w": {"dtype": "BF16", "shape": [len(elements)], "data_offsets": [0, 2 * len(elements)]}}
    written = json.dumps(header).encode()
    (parts / f"rank-{rank}.safetensors").write_bytes(
        len(written).to_bytes(8, "little") + written + np.array(elements, "<u2").tobytes())
assert heddle.checkpoint(parts.parent)["w"].tolist() == [[0, 1, 2], [0, 3, 4]]

np.save(folder / "faces.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
(folder / "faces.txt").write_text("a/1.png\nb/2.png\n")
(folder / "faces.csv").write_text('image,e0,e1,e2\na/1.png,0,1,2\nb/2.png,3,4,5\n')
for ending in ("npy", "csv"):
    faces = heddle.embeddings(folder / f"faces.{ending}")
    assert faces.index.tolist() == ["a/1.png", "b/2.png"] and list(faces.columns) == ["e0", "e1", "e2"]
    assert faces.loc["b/2.png"].tolist() == [3, 4, 5]
(folder / "faces.txt").write_text("M\\xfcller/1\\\\2.png\nb/2.png\n")
assert os.fsencode(heddle.embeddings(folder / "faces.npy").index[0]) == b"M\xfcller/1\\2.png"


def error_of(call, *arguments):
    try:
        call(*arguments)
    except (KeyError, ValueError, FileNotFoundError) as error:
        return error.args[0]
    raise AssertionError(f"{call} of {arguments} is no error")


assert error_of(heddle.results, folder / "none") == f"{folder}/none: expected a results folder, found no experiment.json in it"
assert error_of(run.checkpoint, "other").startswith(f"{folder}: no checkpoint of variant 'other', expected one of [")
assert error_of(run.checkpoint).startswith(f"{folder}: expected the name of a variant, one of [")
assert error_of(heddle.checkpoint, folder) == f"{folder}: expected a checkpoint, a folder step-..."
overlapped.write_text("0F0,F1\n")
assert error_of(heddle.schedule, overlapped) == f"{overlapped}:1: cell 2: expected an action as in 2F0, got 'F1'"
overlapped.write_text("0UNSHARD,0F0,,0REDUCE_GRAD\n")
assert heddle.schedule(overlapped).values.tolist() == [[0, 1, 0, "F", 0]]
broken = folder / "broken" / "step-000001"
broken.mkdir(parents=True)
(broken / "rank-0.safetensors").write_bytes(b"\xff" * 20)
assert error_of(heddle.checkpoint, broken) == (
    f"{broken}/rank-0.safetensors: expected a safetensors file, its header is longer than the file")
print("the package reads everything that the files have")
