#!/usr/bin/env python3
"""Writes torch_orders.csv: the orders of PyTorch's ScheduleInterleaved1F1B and ScheduleInterleavedZeroBubble.

  make_torch_orders.py .../torch/distributed/pipelining/schedules.py > torch_orders.csv

The committed file is of torch 2.15.0. Only schedules.py of PyTorch is needed: the rest of torch, which computing the
orders does not use, is replaced by objects that take any call.
"""
import importlib.abc
import importlib.util
import sys
import types


class Anything:
    def __init__(self, *_, **__):
        pass

    def __call__(self, *arguments, **_):
        return arguments[0] if arguments and callable(arguments[0]) else Anything()

    def __getattr__(self, _):
        return Anything()

    def __getitem__(self, _):
        return Anything()

    def __or__(self, _):
        return Anything()

    def __ror__(self, _):
        return Anything()

    def __mro_entries__(self, _):
        return (object,)


class AnyModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, _path, _target=None):
        if name.split(".")[0] == "torch":
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return AnyModule(spec.name)

    def exec_module(self, module):
        pass


def load(path):
    sys.meta_path.insert(0, TorchFinder())
    spec = importlib.util.spec_from_file_location("torch.distributed.pipelining.schedules", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def orders(schedule, ranks, micro_batches, chunks):
    """One line per rank, or None where the schedule's constructor refuses the number of micro-batches."""
    made = object.__new__(schedule)
    made.pp_group_size, made.n_local_stages, made._n_microbatches = ranks, chunks, micro_batches
    made.number_of_rounds = max(1, micro_batches // ranks)
    made.microbatches_per_round = micro_batches // made.number_of_rounds
    if micro_batches % made.number_of_rounds != 0:
        return None
    lists = [made._calculate_single_rank_operations(rank) for rank in range(ranks)]
    return [",".join(str(action) for action in actions if action is not None) for actions in lists]


def main():
    schedules = load(sys.argv[1])
    for name, schedule in (("interleaved", schedules.ScheduleInterleaved1F1B),
                           ("interleaved_zb", schedules.ScheduleInterleavedZeroBubble)):
        for ranks in (2, 3, 4):
            for micro_batches in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
                for chunks in (1, 2):
                    print(f"# {name} {ranks} {micro_batches} {chunks}")
                    print("\n".join(orders(schedule, ranks, micro_batches, chunks) or ["refused"]))


main()
