"""Rows that the processes of a run share: on every machine one file, which all of its processes map."""

import contextlib
import math
import os
import secrets
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.own.arrays import ArrayRows
from pucl.data.own.batch import Rows
from pucl.distributed import gather, rank_and_world
from pucl.errors import InputError

BATCH = 256  # rows decoded at a time


def shared_rows(rows: Rows, device: torch.device) -> NDArray[Any]:
    """All rows as an array that is mapped, not held: every process reads from the disk what it needs, when it does.

    An array on disk that training takes as it is is mapped where it lies. Otherwise, as for images that have to be
    decoded, the processes of a machine together write a file for temporary use, each a part of it; its name is deleted
    at once, so that the disk is free again when the last of them ends, however it ends.

    Args:
        rows: images or vectors.
        device: of this process, for the messages between processes.
    """
    if isinstance(rows, ArrayRows) and _ready(rows):
        return rows.open()
    rank, world = rank_and_world()
    local, locals_ = (int(os.environ.get(name, n)) for name, n in (("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", world)))
    run = int(gather(torch.tensor([secrets.randbits(60)], device=device))[0])  # the same number for all
    path = Path(tempfile.gettempdir()) / f"pucl-rows-{run:015x}.npy"
    first = next(iter(_part(rows, 0, 1).batches(1))).rows
    try:
        if local == 0:
            _create(path, (len(rows), *first.shape[1:]), first.dtype)
        _wait(device)
        _fill(path, rows, len(rows) * local // locals_, len(rows) * (local + 1) // locals_)
        _wait(device)
        mapped: NDArray[Any] = np.load(path, mmap_mode="r")
        _wait(device)
    finally:
        if local == 0:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return mapped


def _ready(rows: ArrayRows) -> bool:
    """Whether the array is what its batches would be made of: float32 vectors, or uint8 images with channels first."""
    array = rows.open()
    channels_first = array.ndim == 4 and (array.shape[1] in (1, 3, 4) or array.shape[3] not in (1, 3, 4))
    kind = np.float32 if array.ndim == 2 else np.uint8
    return isinstance(array, np.memmap) and array.dtype == kind and (array.ndim == 2 or channels_first)


def _create(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    needed, there = math.prod(shape) * dtype.itemsize, shutil.disk_usage(path.parent).free
    if needed > there:
        raise InputError(
            f"the rows take {needed:,} bytes on the disk of {path.parent}, which has {there:,}: set TMPDIR to another, "
            "or give the rows as a .npy file"
        )
    np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape).flush()


def _part(rows: Rows, start: int, stop: int) -> Rows:
    """Rows from `start` up to `stop`, still on disk."""
    if isinstance(rows, ArrayRows):
        return replace(rows, open=lambda: rows.open()[start:stop], shape=(stop - start, *rows.shape[1:]), ids=None)
    return rows.take(np.arange(start, stop))


def _fill(path: Path, rows: Rows, start: int, stop: int) -> None:
    """Write a part of the rows into the file."""
    whole = np.load(path, mmap_mode="r+")
    for batch in _part(rows, start, stop).batches(BATCH):
        whole[start : start + len(batch)] = batch.rows
        start += len(batch)
    whole.flush()


def _wait(device: torch.device) -> None:
    """Until all processes are here."""
    gather(torch.zeros(1, device=device))
