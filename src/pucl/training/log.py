"""The log of a run: one JSON line per record, and optionally the same numbers as TensorBoard scalars."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from pucl.errors import Described, InputError, RunError, bad_argument, check_count, how_to_install
from pucl.files import replace_file
from pucl.training.checkpoints import way_out

OWNER = "RunLog"


class RunLog:
    """Writes the records of a run; a resumed run ends with the log of one that was never interrupted.

    Args:
        jsonl: file that gets one JSON object per line; a new run refuses one that holds something.
        tensorboard: folder for TensorBoard; a new run refuses one that holds events.
        resume_from: the step the run continues from, in the unit of the records; what was logged after it is dropped.
            None for a new run.
    """

    def __init__(
        self, jsonl: Path | None = None, tensorboard: Path | None = None, *, resume_from: int | None = None
    ) -> None:
        if resume_from is not None:
            resume_from = check_count(OWNER, "resume_from", resume_from, low=0)
        self._path = None if jsonl is None else Path(jsonl)
        self._file: BinaryIO | None = None
        self._writer: Any = None
        try:
            if tensorboard is not None:
                self._writer = _open_tensorboard(Path(tensorboard), resume_from)
            if self._path is not None:
                self._file = _open(self._path, resume_from)
        except BaseException:
            self.close()
            raise

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record; NaN and infinity become null, and TensorBoard skips them.

        TensorBoard gets the numbers of a record that has a ``step``, or else an ``epoch``, to plot them against.
        """
        plain = {str(name): _plain(str(name), value) for name, value in record.items()}
        if self._file is not None:
            line = json.dumps(plain, allow_nan=False).encode() + b"\n"
            try:
                while line:  # the file has no buffer: what is written has left this process
                    line = line[self._file.write(line) :]
            except OSError as error:
                raise _unwritable(self._path, error) from error
        at = _step(plain)
        if self._writer is not None and at is not None:
            for name, value in plain.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and name not in ("step", "epoch"):
                    self._writer.add_scalar(f"pucl/{name}", value, global_step=at)
            self._writer.flush()

    def close(self) -> None:
        """Close what is open; a second call does nothing."""
        if self._file is not None:
            self._file.close()
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(name: str, value: Any) -> Any:
    """`value` as JSON knows it: scalars and arrays of any library as numbers and lists, NaN and infinity as None."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(name, value.tolist())
    allowed = "numbers, text, None, or lists and mappings of them"
    raise bad_argument(OWNER, f"the field {name!r} of a record", allowed, value)


def _step(record: Mapping[str, Any]) -> int | None:
    at = record.get("step", record.get("epoch"))
    return at if isinstance(at, int) else None


def _open(path: Path, resume_from: int | None) -> BinaryIO:
    """The file, opened to append after what a resumed run keeps."""
    try:
        if path.is_dir():
            raise bad_argument(OWNER, "jsonl", "a file", Described(f"the folder {path}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        old = path.read_bytes() if path.exists() else b""
        if old and resume_from is None:
            raise InputError(f"log {path}: the file exists already. Delete it, give another file or resume")
        if resume_from is not None and (kept := _kept(path, old, resume_from)) != old:
            replace_file(path, kept)
        return path.open("ab", buffering=0)
    except OSError as error:
        raise _unwritable(path, error) from error


def _kept(path: Path, old: bytes, resume_from: int) -> bytes:
    """The lines up to step `resume_from`, without a last line that a kill has torn.

    A line without a step shares the fate of the line before it.
    """
    lines = old.split(b"\n")
    kept, keep = [], True
    for number, line in enumerate(lines, start=1):
        if number == len(lines) and not line:
            break
        try:
            record = json.loads(line)
            at = _step(record)
        except (ValueError, AttributeError, RecursionError):
            if number == len(lines):
                break
            raise InputError(f"log {path}: line {number} is not a record of a run. Give another file") from None
        keep = keep if at is None else at <= resume_from
        if keep:
            kept.append(line + b"\n")
    return b"".join(kept)


def _open_tensorboard(folder: Path, resume_from: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        message = f"events for TensorBoard need the package tensorboard: {how_to_install('tensorboard')}"
        raise InputError(message) from error
    try:
        if folder.is_file():
            raise bad_argument(OWNER, "tensorboard", "a folder", Described(f"the file {folder}"))
        if resume_from is None and any(folder.glob("events.out.tfevents.*")):
            raise InputError(f"log {folder}: there are events already. Delete them, give another folder or resume")
        return SummaryWriter(log_dir=str(folder), purge_step=None if resume_from is None else resume_from + 1)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(path: Path | None, error: OSError) -> RunError:
    return RunError(f"log {path}: {error.strerror or error}. To continue, {way_out(error)} or give another path")
