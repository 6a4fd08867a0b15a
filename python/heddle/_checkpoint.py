"""Checkpoints: a safetensors file for each rank that saved. Each tensor says which part of the whole it is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# numpy has no bf16: the upper half of an f32 is read as an integer, and widened.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1"}
_PART = re.compile(r"\[([\d,]*)\] at \[([\d,]*)\] size \[([\d,]*)\](?: elements \[(\d+),(\d+)\])?")


@dataclass(frozen=True)
class _Stored:
    """Some elements of a tensor: those of a box of the whole, or of them a range in row-major order."""

    file: Path
    dtype: str
    offset: int  # of the first byte in the file
    whole: tuple[int, ...]
    box: tuple[slice, ...]
    elements: slice | None

    def read(self) -> Array:
        sizes = tuple(side.stop - side.start for side in self.box)
        shape = sizes if self.elements is None else (self.elements.stop - self.elements.start,)
        if 0 in shape:
            return np.empty(shape, _TYPES[self.dtype])
        return np.memmap(self.file, _TYPES[self.dtype], "r", self.offset, shape)

    def copy_into(self, whole: Array) -> None:
        if self.elements is None:
            whole[self.box] = self.read()
        else:
            box = np.ascontiguousarray(whole[self.box])
            box.reshape(-1)[self.elements] = self.read()
            whole[self.box] = box


class Checkpoint(Mapping[str, Array]):
    """The tensors of a checkpoint by their names, whole, whichever ranks have their parts.

    Weights of 8 bits are as they are stored: `NAME.scale` has the factor of each row. bf16 is widened to f32.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, str] = {}
        """What all files say about the run; `experiment` reads its experiment."""
        self._stored: dict[str, list[_Stored]] = {}
        rank, ranks = 0, 1
        while rank < ranks:
            self._add(path / f"rank-{rank}.safetensors")
            rank, ranks = rank + 1, int(self.metadata["ranks"])

    @property
    def steps(self) -> int:
        """The number of steps that were done."""
        return int(self.metadata["steps"])

    @property
    def experiment(self) -> dict[str, Any]:
        """The experiment as the checkpoint recorded it, on one rank."""
        read: dict[str, Any] = json.loads(self.metadata["evaluated_json"])
        return read

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return self._stored[name][0].whole

    def __getitem__(self, name: str) -> Array:
        parts = self._stored[name]
        if len(parts) == 1 and parts[0].elements is None and parts[0].read().shape == parts[0].whole:
            whole = parts[0].read()
        else:
            whole = np.zeros(parts[0].whole, _TYPES[parts[0].dtype])
            for part in parts:
                part.copy_into(whole)
        if parts[0].dtype != "BF16":
            return whole
        return (whole.astype(np.uint32) << 16).view(np.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._stored))

    def __len__(self) -> int:
        return len(self._stored)

    def _add(self, file: Path) -> None:
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            if 8 + size > file.stat().st_size:
                raise ValueError(f"{file}: expected a safetensors file, its header is longer than the file")
            try:
                header: dict[str, Any] = json.loads(opened.read(size))
            except ValueError as error:
                raise ValueError(f"{file}: expected a safetensors file: {error}") from error
        metadata: dict[str, str] = header.pop("__metadata__", {})
        if not {"ranks", "steps"} <= metadata.keys():
            raise ValueError(f"{file}: expected a file of a checkpoint, its metadata have no ranks and steps")
        self.metadata = {key: text for key, text in metadata.items() if not key.startswith("part of ")}
        for name, entry in header.items():
            found = _PART.fullmatch(metadata.get(f"part of {name}", ""))
            if found is None or entry["dtype"] not in _TYPES:
                raise ValueError(f"{file}: {name}: expected its part of the whole, and a type of {list(_TYPES)}")
            begins, sizes = _integers(found[2]), _integers(found[3])
            box = tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))
            elements = None if found[4] is None else slice(int(found[4]), int(found[4]) + int(found[5]))
            offset = 8 + size + int(entry["data_offsets"][0])
            stored = _Stored(file, entry["dtype"], offset, _integers(found[1]), box, elements)
            self._stored.setdefault(name, []).append(stored)


def checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """A checkpoint: a folder `step-000050`, or the newest one of a folder that holds some."""
    folder = Path(path)
    if not re.fullmatch(r"step-\d+", folder.name):
        steps = [inner for inner in folder.glob("step-*") if re.fullmatch(r"step-\d+", inner.name)]
        if not steps:
            raise FileNotFoundError(f"{folder}: expected a checkpoint, a folder step-...")
        folder = max(steps, key=lambda inner: int(inner.name.removeprefix("step-")))
    return Checkpoint(folder)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",")) if text else ()
