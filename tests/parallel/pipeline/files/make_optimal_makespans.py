#!/usr/bin/env python3
"""Writes optimal_makespans.csv: the least makespans of small steps, which OR-Tools' CP-SAT proves (pip install ortools).

  make_optimal_makespans.py > optimal_makespans.csv

The committed file is of ortools 9.15; it takes about ten minutes. The optimum is empty where the memory is too small.
"""
import csv
import sys
from fractions import Fraction
from math import lcm

from ortools.sat.python import cp_model

COSTS = [(1, 1, 1, 0), (1, 1, 1, 0.25), (3, 4, 2, 0.5), (1, 2, 1, 0)]
STEPS = [(2, 2, (1, 2)), (2, 4, (1.5, 2)), (2, 6, (1, 3)), (3, 3, (1.5, 3)), (3, 5, (1, 2)), (3, 6, (1.5, 3)),
         (4, 4, (1, 2, 3)), (4, 6, (2, 2.5, 4))]
PLACEMENTS = ["L1", "V2", "L2"]  # stages in loops or folded, and the number of stages per rank


def rank_of(placement, ranks):
    chunks = int(placement[1:])
    loops = [list(range(ranks)) for _ in range(chunks)]
    if placement[0] == "V":
        loops[1::2] = [loop[::-1] for loop in loops[1::2]]
    return [rank for loop in loops for rank in loop]


def optimum(ranks, micro_batches, memory, costs, placement):
    on_rank = rank_of(placement, ranks)
    stages, chunks = len(on_rank), len(on_rank) // ranks
    exact = [Fraction(str(cost)) / chunks for cost in costs[:3]] + [Fraction(str(costs[3]))]
    unit = lcm(*(cost.denominator for cost in exact))
    forward, backward_input, backward_weight, transfer = (int(cost * unit) for cost in exact)
    seconds = {"F": forward, "I": backward_input, "W": backward_weight}
    horizon = (sum(seconds.values()) + 2 * transfer) * stages * micro_batches

    model = cp_model.CpModel()
    begin, computing, held = {}, [[] for _ in range(ranks)], [[] for _ in range(ranks)]
    for stage in range(stages):
        for i in range(micro_batches):
            for kind, duration in seconds.items():
                begin[kind, stage, i] = model.NewIntVar(0, horizon, "")
                computing[on_rank[stage]].append(model.NewFixedSizeIntervalVar(begin[kind, stage, i], duration, ""))
            size = model.NewIntVar(0, horizon, "")
            end = begin["W", stage, i] + backward_weight
            held[on_rank[stage]].append(model.NewIntervalVar(begin["F", stage, i], size, end, ""))

    makespan = model.NewIntVar(0, horizon, "")

    def follows(later, earlier, link=0):
        model.Add(begin[later] >= begin[earlier] + seconds[earlier[0]] + link)

    for stage in range(stages):
        for i in range(micro_batches):
            link = transfer if stage > 0 and on_rank[stage] != on_rank[stage - 1] else 0
            if stage > 0:
                follows(("F", stage, i), ("F", stage - 1, i), link)
                follows(("I", stage - 1, i), ("I", stage, i), link)
            if stage == stages - 1:
                follows(("I", stage, i), ("F", stage, i))
            follows(("W", stage, i), ("I", stage, i))
            model.Add(makespan >= begin["W", stage, i] + backward_weight)
            if i > 0:
                for kind in seconds:
                    follows((kind, stage, i), (kind, stage, i - 1))
    for rank in range(ranks):
        model.AddNoOverlap(computing[rank])
        model.AddCumulative(held[rank], [1] * len(held[rank]), int(memory * chunks + 1e-9))
    model.Minimize(makespan)

    solver = cp_model.CpSolver()
    status = solver.Solve(model)
    if status == cp_model.INFEASIBLE:
        return ""
    assert status == cp_model.OPTIMAL, solver.StatusName(status)
    return solver.ObjectiveValue() / unit


def main():
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow("ranks micro_batches memory F I W c placement optimum".split())
    step = 0
    for ranks, micro_batches, memories in STEPS:
        for memory in memories:
            for costs in (COSTS[0], COSTS[1 + step % 3]):
                for placement in PLACEMENTS:
                    writer.writerow([ranks, micro_batches, memory, *costs, placement,
                                     optimum(ranks, micro_batches, memory, costs, placement)])
            step += 1


main()
