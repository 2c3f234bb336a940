"""An interrupted fit: a folder that holds what its expensive stages have done, and says which fit it was."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pucl import __version__
from pucl.distributed import rank_and_world
from pucl.errors import Described, InputError, RunError, bad_argument, one_line
from pucl.files import alone_in, is_temporary, replace_file
from pucl.fitting.plan import Bools, FitOptions
from pucl.fitting.progress import LOGGER
from pucl.models.folder import UNFINISHED
from pucl.models.places import check_folder
from pucl.models.stored_values import whole
from pucl.training import checkpoints
from pucl.training.checkpoints import Checkpoints, fingerprint

WHICH = "fit.json"  # which fit it is; written before anything else, removed last
PRETRAINING = "pretraining"
NOT_COMPARED = ("owner", "download")  # of the options: they do not change the result


@dataclass(frozen=True)
class Resumable:
    """Where a fit saves itself.

    Attributes:
        folder: for this one fit; made when something is saved, removed after success.
        resume: go on with an interrupted fit that is there; otherwise it is removed.
        also: other options that the result depends on, by the names the user knows.
        discard: what to tell a user who wants to start anew.
        names: what the user calls options that have other names here.
    """

    folder: Path
    resume: bool = True
    also: Mapping[str, Any] = field(default_factory=dict)
    discard: str = "delete the folder"
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unfinished:
    """A fit that saves itself, from its start or after an interruption."""

    folder: Path
    identity: Mapping[str, Any]

    @property
    def pretraining(self) -> Checkpoints:
        """Where the encoder's training saves itself: as often as costs little."""
        self._begin()
        return Checkpoints(self.folder / PRETRAINING, every=None, keep=1)

    def load(self, stage: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and state that a stage has kept; None if it has not got so far."""
        saved = checkpoints.load(self.folder / stage, run={})
        return None if saved is None else (saved.tensors, saved.state)

    def keep(self, stage: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any] | None = None) -> None:
        """Keep what a stage has done, whole or not at all."""
        self._begin()
        checkpoints.save(Checkpoints(self.folder / stage), step=0, tensors=tensors, state=state or {}, run={})

    def _begin(self) -> None:
        path = self.folder / WHICH
        try:
            if not path.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                replace_file(path, json.dumps(self.identity, indent=1).encode())
        except OSError as error:
            raise RunError(f"{self.folder}: {error.strerror or error}; make room or give another place") from None


def open_unfinished(
    where: Resumable,
    rows: Tensor,
    labelled: Bools,
    negative: Bools | None,
    options: FitOptions,
    device: torch.device,
    *,
    answered: Any = None,
    extra: Bools | None = None,
) -> Unfinished:
    """The fit that saves itself in a folder; one that was interrupted there must be the same."""
    known = labelled.astype(np.int8) - (0 if negative is None else negative.astype(np.int8))
    known = known if answered is None else known + np.int8(2) * answered
    known = known if extra is None else known + np.int8(4) * extra
    identity = {
        "versions": {"pucl": __version__, "torch": torch.__version__},
        "options": {**_chosen(options), **{name: _plain(value) for name, value in where.also.items()}},
        "device": device.type,
        "data": {
            "rows": len(rows),
            "labelled": int(labelled.sum()),
            "content": fingerprint(rows, torch.from_numpy(known)),
        },
    }
    identity = json.loads(json.dumps(identity))
    check_place(where.folder, options.owner)
    if where.resume and is_interrupted(where.folder):
        _check_same(where, _read(where.folder), identity, options.owner)
        stages = sorted(path.name for path in where.folder.iterdir() if path.is_dir())
        LOGGER.info("%s: going on with the interrupted fit in %s: %s", options.owner, where.folder, ", ".join(stages))
    else:
        _clear(where.folder)
    return Unfinished(where.folder, identity)


def is_interrupted(folder: Path) -> bool:
    """Whether a folder holds a fit that was interrupted after a stage had been saved."""
    return (folder / WHICH).is_file() and any(folder.glob("*/step-*.json"))


@contextmanager
def only_fit(where: Resumable | None, owner: str) -> Iterator[None]:
    """Keep other processes from saving a fit in the same folder until this one is done; those of one run share it."""
    if where is None or rank_and_world()[0] > 0:
        yield
        return
    check_place(where.folder, owner)
    with ExitStack() as stack:
        try:
            stack.enter_context(alone_in(where.folder))
        except OSError as error:
            raise RunError(f"{owner}: cannot work in {where.folder}: {error.strerror or error}") from None
        yield


@contextmanager
def no_empty_leftovers(unfinished: Unfinished | None) -> Iterator[None]:
    """Remove the folder of a fit that ends before anything was saved."""
    try:
        yield
    except BaseException:
        if unfinished is not None and not is_interrupted(unfinished.folder):
            with suppress(RunError):  # what ended the fit counts
                remove_unfinished(unfinished.folder)
        raise


def check_place(folder: Path, owner: str) -> None:
    """Refuse a folder that holds anything but an interrupted fit, or cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise bad_argument(owner, "checkpoint", "a folder", Described(f"the file {folder}"))
    if folder.is_dir() and not _is_of_fit(folder) and any(folder.iterdir()):
        got = Described(f"{folder} with other files in it")
        raise bad_argument(owner, "checkpoint", "a folder that is new, empty or of an interrupted fit", got)
    check_folder(owner, "checkpoint", folder)


def _chosen(options: FitOptions) -> dict[str, Any]:
    names = (each.name for each in fields(options) if each.name not in NOT_COMPARED)
    return {name: _plain(getattr(options, name)) for name in names}


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; a module by its weights, other code by its name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, nn.Module):
        digest = hashlib.sha256()
        for name, tensor in value.state_dict().items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return f"{type(value).__name__}, weights {digest.hexdigest()[:16]}"
    return str(value) if isinstance(value, Path) else getattr(value, "__qualname__", type(value).__name__)


def _read(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / WHICH).read_bytes())
        _ = whole(content["data"]["rows"]), whole(content["data"]["labelled"]), content["data"]["content"]
        _ = _table(content, "versions"), _table(content, "options"), content["device"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{folder / WHICH} cannot be read: {one_line(error)}; delete {folder} to start anew") from None
    return dict(content)


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = content[name]
    if not isinstance(table, dict):
        raise TypeError(f"{name!r} is no table")
    return table


def _check_same(where: Resumable, was: Mapping[str, Any], now: Mapping[str, Any], owner: str) -> None:
    """Refuse to go on with the fit of another version, other options, another device or other data."""
    anew = f"to start anew, {where.discard}"
    for package, version in now["versions"].items():
        if was["versions"].get(package) != version:
            before = str(was["versions"].get(package))[:40]
            raise InputError(f"the interrupted fit used {package} {before}, this is {version}; {anew}", owner=owner)
    for name in {**now["options"], **was["options"]}:
        before, value = was["options"].get(name), now["options"].get(name)
        if before != value:
            allowed = f"{_said(before):.200}, as in the interrupted fit, to resume it ({anew})"
            raise bad_argument(owner, where.names.get(name, name[:40]), allowed, Described(_said(value)))
    if was["device"] != now["device"]:
        before = f"{was['device']!r:.40}"
        raise bad_argument(owner, "device", f"{before}, as in the interrupted fit ({anew})", now["device"])
    if was["data"] != now["data"]:
        both = (f"{data['rows']:,} rows with {data['labelled']:,} labelled" for data in (was["data"], now["data"]))
        before, value = both
        difference = f"{before} before, {value} now" if before != value else f"{value} as before, but other values"
        raise InputError(f"the data are not those of the interrupted fit: {difference}; {anew}", owner=owner)


def _said(value: Any) -> str:
    unset = value is None or value is False or value in ("auto", [])
    return "left out" if unset else repr(value)


def remove_unfinished(folder: Path) -> None:
    """Remove what a fit has saved of itself, if anything."""
    if folder.is_dir() and _is_of_fit(folder):
        _clear(folder)
        with suppress(OSError):  # other files may lie there
            folder.rmdir()
            if folder.name == UNFINISHED:
                folder.parent.rmdir()


def _is_of_fit(folder: Path) -> bool:
    """Whether a folder holds what a fit has saved of itself, or the beginning of that."""
    return (folder / WHICH).is_file() or all(is_temporary(path) for path in folder.iterdir())


def _clear(folder: Path) -> None:
    """Remove what a fit has saved from its folder; the file that says what it is goes last."""
    if not folder.is_dir() or not _is_of_fit(folder):
        return
    try:
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif is_temporary(path):
                path.unlink(missing_ok=True)
        (folder / WHICH).unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot remove the interrupted fit in {folder}: {error.strerror or error}") from None
