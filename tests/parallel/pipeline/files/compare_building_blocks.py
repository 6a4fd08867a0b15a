#!/usr/bin/env python3
"""Compares `heddle schedule --search` with the program of Qi et al. 2024 (github.com/sail-sg/zero-bubble).

    compare_building_blocks.py V_AUTO_SCHEDULE [P,M ...]

V_AUTO_SCHEDULE is their file megatron/core/pipeline_parallel/zerobubble/scheduler/v_auto_schedule.py. For each number of
ranks P and of micro-batches M, nine kinds of costs, and several bounds on memory, it prints the smaller makespans of both,
and in the end how often each was better. Exits with 1 if theirs was ever better.
"""

import collections
import contextlib
import importlib.util
import io
import json
import pathlib
import subprocess
import sys

HEDDLE = pathlib.Path(__file__).parents[4] / "heddle"
SETTINGS = ["3,6", "3,12", "4,4", "4,8", "4,16", "5,5", "5,8", "5,20", "6,12", "6,24", "7,21", "8,8", "8,12", "8,16",
            "8,24", "8,32", "10,15", "10,20", "10,40", "12,12", "12,24", "12,48", "16,16", "16,24", "16,32", "16,64"]
# F, I and W of a micro-batch on a rank, and one transfer.
COSTS = [(1, 1, 1, 0), (1, 1, 1, 0.3), (1, 1.2, 0.8, 0.05), (1, 1.4, 0.6, 0), (2, 1, 1, 0.2), (1, 2, 1, 0.5),
         (1, 0.7, 1.6, 0.1), (29935, 29621, 19388, 535), (1, 1.1, 0.9, 1.5)]


def load(path):
    spec = importlib.util.spec_from_file_location("v_auto_schedule", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def their_schedules(theirs, ranks, micro_batches):
    """(memory in halves of a micro-batch, schedule) of each block that their search tries."""
    found = []
    known = set()
    original = theirs.schedule_by_building_block

    def recorded(p, m, block, max_mem, **options):
        if str(block) in known:
            return None, 0, [0] * p
        known.add(str(block))
        try:
            result = original(p, m, block, max_mem, **options)
        except (AssertionError, IndexError):  # of a few blocks with few micro-batches
            return None, 0, [0] * p
        if result[0] is not None:
            found.append((result[1], [list(row) for row in result[0]]))
        return result

    theirs.schedule_by_building_block = recorded
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(TypeError):  # TypeError: no schedule was found
        theirs.schedule(ranks, micro_batches, (1, 1, 1, 0), 2 * ranks)
    theirs.schedule_by_building_block = original
    return found


def makespan(theirs, schedule, costs):
    forward, backward, weight, transfer = costs
    rows = theirs.transform_schedule(schedule, forward / 2, backward / 2, weight / 2, transfer)
    return max(node.completion_time for row in rows for node in row)


def our_makespan(ranks, micro_batches, costs, memory):
    command = [HEDDLE, "schedule", "--search", "--json", "--stages", str(ranks), "--micro-batches", str(micro_batches),
               "--costs", ",".join(map(str, costs)), "--memory", str(memory)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["makespan"]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.setrecursionlimit(1_000_000)
    theirs = load(sys.argv[1])
    counts = collections.Counter()
    for setting in sys.argv[2:] or SETTINGS:
        ranks, micro_batches = map(int, setting.split(","))
        schedules = their_schedules(theirs, ranks, micro_batches)
        for costs in COSTS:
            makespans = [(memory, makespan(theirs, schedule, costs)) for memory, schedule in schedules]
            for halves in sorted({max(2, ranks // 2), ranks // 2 + 1, 2 * ranks // 3, ranks, ranks + ranks // 4,
                                  3 * ranks // 2, 2 * ranks - 2, 2 * ranks}):
                fitting = [time for memory, time in makespans if memory <= halves]
                if not fitting:
                    continue
                their, our = min(fitting), our_makespan(ranks, micro_batches, costs, halves / 2)
                word = "worse" if our > their * (1 + 1e-9) else "equal" if our > their * (1 - 1e-9) else "better"
                counts[word] += 1
                print(f"p {ranks} m {micro_batches} costs {costs} memory {halves / 2}: theirs {their:.10g}, ours {our:.10g}, {word}",
                      flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    sys.exit(1 if counts["worse"] else 0)


if __name__ == "__main__":
    main()
