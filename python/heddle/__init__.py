"""Reads what Heddle writes into pandas and numpy.

>>> import heddle
>>> run = heddle.results("results/quickstart")
>>> run.metrics.groupby("variant")["loss"].last()
>>> heddle.checkpoint("results/quickstart/checkpoint/serial")["head.weight"].shape
"""

from importlib.metadata import PackageNotFoundError, version

from heddle._checkpoint import Checkpoint, checkpoint
from heddle._results import Results, embeddings, results, schedule, trace

try:
    __version__ = version("heddle")
except PackageNotFoundError:  # imported from the sources
    __version__ = "unknown"

__all__ = ["Checkpoint", "Results", "checkpoint", "embeddings", "results", "schedule", "trace"]
