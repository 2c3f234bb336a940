"""Checkpoints of a run: a kill or a full disk at any moment leaves the checkpoint before it whole.

A checkpoint is ``step-00001234.safetensors`` with the tensors and ``step-00001234.json`` with everything else. The JSON
is written last and commits the checkpoint: tensors without it do not count.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as unpack
from safetensors.torch import save as pack
from torch import Tensor

from pucl import __version__
from pucl.errors import Described, InputError, RunError, RunWarning, bad_argument, check_count
from pucl.files import replace_file

FORMAT = 1
HASHED_BYTES = 64 * 2**20  # of the rows, in a fingerprint
_COMMITTED = re.compile(r"step-(\d{8,})\.json")
_TENSORS = re.compile(r"step-\d{8,}\.safetensors")
_TEMPORARY = re.compile(r"\.?step-\d{8,}\.(?:json|safetensors)(?:\.\w+)?\.tmp")


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a run saves itself.

    Attributes:
        folder: of the checkpoints of this one run; made when it is not there.
        every: epochs between checkpoints; None for as often as takes a twentieth of the time at most.
        keep: how many of the newest are kept.
    """

    folder: Path
    every: int | None = 10
    keep: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike):
            raise bad_argument("Checkpoints", "folder", "a path", self.folder)
        object.__setattr__(self, "folder", Path(self.folder))
        for name in ("every", "keep") if self.every is not None else ("keep",):
            object.__setattr__(self, name, check_count("Checkpoints", name, getattr(self, name)))


@dataclass(frozen=True)
class Saved:
    """A checkpoint as it was read.

    Attributes:
        step: when it was saved.
        tensors: on the CPU, contiguous, bit for bit what was saved.
        state: what the loop stored besides the tensors.
        path: its JSON file.
        run: what identifies its run.
    """

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    path: Path
    run: dict[str, Any]


class _DamagedError(InputError):
    """A checkpoint that was committed and is no longer what was written."""


def save(
    where: Checkpoints, *, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], run: Mapping[str, Any]
) -> Path:
    """Save a checkpoint, then delete those beyond `where.keep`; returns the path of its JSON file.

    Args:
        where: the folder, and how many to keep.
        step: later than every step already in the folder.
        tensors: on any device, in any layout but sparse; names may share memory.
        state: anything JSON can hold that the loop wants back.
        run: anything JSON can hold that says which run this is; `load` compares it.
    """
    step = check_count("save", "step", step, low=0)
    folder, data = where.folder, _pack(tensors)
    text = _record(data, step=step, state=state, run=run)
    try:
        _check_folder("save", folder)
        _check_later(folder, step)
        folder.mkdir(parents=True, exist_ok=True)
        _clean(folder)
        _commit(folder, step, data, text)
    except OSError as error:
        raise _no_room(folder, step, error, len(data) + len(text)) from error
    _thin_out(where)
    return _files(folder, step)[0]


def tidy(where: Checkpoints) -> None:
    """Finish what a run that was killed after its newest checkpoint did not: the older ones are deleted."""
    with _readable(where.folder):
        _thin_out(where)
        _clean(where.folder)


def _thin_out(where: Checkpoints) -> None:
    for old in committed(where.folder)[: -where.keep]:
        for path in _files(where.folder, old):  # the JSON first: what is left of a kill in between does not count
            _delete(path)


def load(folder: Path, *, run: Mapping[str, Any]) -> Saved | None:
    """The newest checkpoint of `folder`, checked against its hash and against `run`; None where there is none."""
    folder = Path(folder)
    with _readable(folder):
        _check_folder("load", folder)
        steps = committed(folder)
    if not steps:
        return None
    *older, newest = steps
    try:
        saved = read(_files(folder, newest)[0])
    except _DamagedError as error:
        raise InputError(f"{error}; {_way_back(folder, newest, older)}") from error
    if differ := _difference(saved.run, _json("load", "run", run)):
        key, was, now = differ
        raise InputError(
            f"checkpoint {saved.path}: {key} {was}; this run has {now}. "
            "Resume with the same settings or give another folder"
        )
    return saved


def read(path: Path) -> Saved:
    """The checkpoint whose JSON file is `path`, with its hash checked."""
    record = _read_record(path)
    file = path.with_suffix(".safetensors")
    data = _read_bytes(file)
    if len(data) != record["bytes"]:
        raise _DamagedError(f"checkpoint {file}: damaged: {len(data):,} bytes of {record['bytes']:,}")
    if hashlib.sha256(data).hexdigest() != record["sha256"]:
        raise _DamagedError(f"checkpoint {file}: damaged: its SHA-256 is not the one it was written with")
    try:
        tensors = unpack(data)
    except SafetensorError as error:
        raise InputError(f"checkpoint {file}: cannot be read by this version of safetensors: {error}") from error
    return Saved(step=record["step"], tensors=tensors, state=record["state"], path=path, run=record["run"])


def committed(folder: Path) -> list[int]:
    """The steps of the checkpoints in `folder`, oldest first."""
    if not folder.exists():
        return []
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _COMMITTED.fullmatch(path.name)))


def check_unused(folder: Path) -> None:
    """Refuse a folder with checkpoints for a run that starts from scratch, before an epoch is spent."""
    with _readable(folder):
        _check_folder("Checkpoints", folder)
        _check_later(folder, 0)


def fingerprint(x: Tensor, labelled: Tensor) -> str:
    """What the data are: ``k of n rows, sha256 …``, the same on every device and machine.

    The hash covers shapes, dtypes, all labels and the rows: every row up to 64 MB; beyond that as many as fit into
    64 MB, at least one, evenly spread from the first to the last.
    """
    n = len(x)
    of_row = max(1, x[:1].numel() * x.element_size())
    rows = n if n * of_row <= HASHED_BYTES else max(1, HASHED_BYTES // of_row)
    picked = x if rows == n else x[torch.arange(rows, device=x.device) * (n - 1) // max(1, rows - 1)]
    digest = hashlib.sha256()
    for tensor, whole in ((labelled, labelled), (picked, x)):
        digest.update(f"{whole.dtype} {tuple(whole.shape)} {len(tensor)}\n".encode())
        digest.update(_little_endian(tensor))
    return f"{rows} of {n} rows, sha256 {digest.hexdigest()}"


def _commit(folder: Path, step: int, data: bytes, text: bytes) -> None:
    """Put both files in place, the JSON last; tensors that were not committed are taken away again."""
    json_file, tensors_file = _files(folder, step)
    try:
        replace_file(tensors_file, data)
        replace_file(json_file, text)
    finally:
        with contextlib.suppress(OSError):
            if not json_file.exists():
                tensors_file.unlink(missing_ok=True)


@contextlib.contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"checkpoints {folder}: cannot be read: {_reason(error)}") from error


def _files(folder: Path, step: int) -> tuple[Path, Path]:
    return folder / f"step-{step:08d}.json", folder / f"step-{step:08d}.safetensors"


def _check_folder(owner: str, folder: Path) -> None:
    there = _nearest(folder)
    if not there.is_dir():
        raise bad_argument(owner, "folder", "a folder", Described(f"the file {there}"))


def _check_later(folder: Path, step: int) -> None:
    # Overwriting a committed step is not safe from a kill, and the checkpoints may belong to another run.
    if steps := [old for old in committed(folder) if old >= step]:
        raise InputError(
            f"checkpoints {folder}: step {steps[-1]} is saved there already. Resume, delete it or give another folder"
        )


def _nearest(path: Path) -> Path:
    """`path`, or the nearest folder above it that is there."""
    return next((there for there in (path, *path.parents) if there.exists()), Path())


def _clean(folder: Path) -> None:
    """Delete what killed runs left behind: temporary files, and tensors that were never committed."""
    for path in list(folder.iterdir()):
        orphan = _TENSORS.fullmatch(path.name) and not path.with_suffix(".json").exists()
        if orphan or _TEMPORARY.fullmatch(path.name):
            _delete(path)


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        warnings.warn(
            f"checkpoints: {path} cannot be deleted: {_reason(error)}. Delete it before the disk is full",
            RunWarning,
            stacklevel=3,
        )


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    fresh = {}
    for name, tensor in tensors.items():
        if name == "__metadata__":  # safetensors writes this name and cannot read it back
            raise bad_argument("save", "tensors", "named otherwise", name)
        if tensor.layout != torch.strided:
            raise bad_argument("save", "tensors", "dense", Described(f"{name} of layout {tensor.layout}"))
        # A copy of its own for each: safetensors takes neither shared memory nor other orders of the axes.
        fresh[name] = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu").copy_(tensor.detach())
    try:
        return bytes(pack(fresh))
    except (KeyError, ValueError, SafetensorError) as error:
        raise bad_argument("save", "tensors", "what safetensors can hold", Described(f"{error}")) from error


def _record(data: bytes, *, step: int, state: Mapping[str, Any], run: Mapping[str, Any]) -> bytes:
    record = {
        "format": FORMAT,
        "pucl": __version__,
        "step": step,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "run": _json("save", "run", run),
        "state": _json("save", "state", state),
    }
    return json.dumps({**record, "seal": _seal(record)}, indent=1).encode()


def _seal(record: dict[str, Any]) -> str:
    """A hash of the record itself: a bit that flips in the JSON must not become another state."""
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def _json(owner: str, argument: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` after a round trip through JSON, where tuples become lists."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(value)))
    except (TypeError, ValueError, RecursionError) as error:
        raise bad_argument(owner, argument, "a mapping JSON can hold", Described(f"{error}")) from error
    return plain


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise _DamagedError(f"checkpoint {path}: damaged: the file is missing") from None
    except OSError as error:
        raise InputError(f"checkpoint {path}: cannot be read: {_reason(error)}") from error


def _read_record(path: Path) -> dict[str, Any]:
    damaged = _DamagedError(f"checkpoint {path}: damaged: not the JSON that was written")
    try:
        record: dict[str, Any] = json.loads(_read_bytes(path))
        newer = record["format"] > FORMAT
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise damaged from error
    if newer:
        raise InputError(
            f"checkpoint {path}: written by pucl {record.get('pucl')} in format {record['format']}; this is pucl "
            f"{__version__}, which reads up to format {FORMAT}. Upgrade pucl or give another folder"
        )
    kinds = {"step": int, "sha256": str, "bytes": int, "run": dict, "state": dict}
    sound = all(isinstance(record.get(key), kind) for key, kind in kinds.items())
    if record.pop("seal", None) != _seal(record) or not sound:
        raise damaged
    return record


def _way_back(folder: Path, bad: int, older: list[int]) -> str:
    """What to do about a damaged checkpoint: continue from the newest intact one before it, or start anew."""
    delete = "Delete " + " and ".join(path.name for path in _files(folder, bad))
    for step in reversed(older):
        with contextlib.suppress(InputError):
            read(_files(folder, step)[0])
            return f"the newest intact one before it is of step {step}. {delete} to continue from there"
    return f"no older one is intact. {delete} to start anew"


def _difference(was: Any, now: Any, key: str = "") -> tuple[str, str, str] | None:
    """The first key, as a dotted path, whose values differ, with both sides in words; None when all are equal."""
    if not (isinstance(was, dict) and isinstance(now, dict)):
        same = was == now or json.dumps(was) == json.dumps(now)  # NaN is not equal to itself, but it reads the same
        return None if same else (key, f"was {was!r:.120}", f"{now!r:.120}")
    for name in [*now, *(name for name in was if name not in now)]:
        inner = f"{key}.{name}" if key else name
        if was.get(name) is None and now.get(name) is None:  # not used, and perhaps not there in another version
            continue
        if name not in was:
            return inner, "was not set", f"{now[name]!r:.120}"
        if name not in now:
            return inner, f"was {was[name]!r:.120}", "none"
        if difference := _difference(was[name], now[name], inner):
            return difference
    return None


def _little_endian(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return bytes(flat if sys.byteorder == "little" else flat.reshape(-1, tensor.element_size())[:, ::-1])


def _no_room(folder: Path, step: int, error: OSError, needed: int) -> RunError:
    """One line on a checkpoint that could not be written: where, why, how much was needed and what is left."""
    free, left = "an unknown number", "What was saved before is intact"
    with contextlib.suppress(OSError):
        free = f"{shutil.disk_usage(_nearest(folder)).free:,}"
        before = [old for old in committed(folder) if old < step]
        left = f"The checkpoint of step {before[-1]} is intact" if before else "Nothing was saved before"
    return RunError(
        f"checkpoint {folder / f'step-{step:08d}'}: {_reason(error)}; {needed:,} bytes needed, {free} free. "
        f"{left}: {way_out(error)} or give another folder"
    )


def way_out(error: OSError) -> str:
    """What to do about a path that could not be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "make room there" if full else "make it writable"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
