"""Small checkpoints, and calls that fail when told to."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pucl.training.checkpoints import Checkpoints, load, save

RUN = {"config": {"epochs": 300, "projection": (512, 128)}, "data": "abc"}


def keep(folder: Path, step: int, **changes: Any) -> Path:
    given = {"tensors": {"w": torch.full((1000,), step)}, "state": {"at": step}, "run": RUN, **changes}
    return save(Checkpoints(folder), step=step, **given)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def pairs(*steps: int) -> list[str]:
    return [f"step-{step:08d}.{kind}" for step in steps for kind in ("json", "safetensors")]


def holds(folder: Path, step: int) -> bool:
    saved = load(folder, run=RUN)
    return saved is not None and saved.state == {"at": step} and bool((saved.tensors["w"] == step).all())


def failing(call: Callable[..., Any], nth: int, error: BaseException) -> Callable[..., Any]:
    """`call`, except that its n-th use fails."""
    uses = itertools.count(1)

    def use(*args: Any, **kwargs: Any) -> Any:
        if next(uses) == nth:
            raise error
        return call(*args, **kwargs)

    return use
