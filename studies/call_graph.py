"""Which files of the package a task touches, and which pairs of files call each other in both directions.

    python studies/call_graph.py table images fit smoke

A pair of files is two-way when functions of each were called from the other; fewer such pairs are easier to read.
"""

import argparse
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import numpy as np

import pucl
from pucl.registry import FAMILIES, entries

PACKAGE = str(Path(pucl.__file__).parent)


class Calls:
    """The calls between files while it is on."""

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self.files: set[str] = set()
        self._names: dict[CodeType, str | None] = {}

    def __enter__(self) -> Self:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or (here := self._file(frame)) is None or frame.f_code.co_name == "<module>":
            return
        self.files.add(here)
        caller = frame.f_back
        while caller is not None and self._file(caller) is None:
            caller = caller.f_back
        if caller is None or caller.f_code.co_name == "<module>":  # registration at import is no call of the task's
            return
        if (there := self._file(caller)) is not None and there != here:
            self.pairs.add((there, here))

    def _file(self, frame: FrameType) -> str | None:
        code = frame.f_code
        if code not in self._names:
            inside = code.co_filename.startswith(PACKAGE)
            self._names[code] = code.co_filename[len(PACKAGE) + 1 :] if inside else None
        return self._names[code]

    def two_way(self) -> list[tuple[str, str]]:
        """Pairs that call each other in both directions."""
        return sorted({(a, b) for a, b in self.pairs if (b, a) in self.pairs and a < b})


def _labels(positive: Any) -> Any:
    s = np.zeros(len(positive), dtype=int)
    s[np.flatnonzero(positive)[::4]] = 1
    return s


def fit_table() -> None:
    """`PUClassifier.fit` on a table."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    pucl.PUClassifier(random_state=0, epochs=2).fit(data.data, _labels(data.target == 0))


def fit_images() -> None:
    """`PUClassifier.fit` on images."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images * 15).astype(np.uint8)[:900]
    pucl.PUClassifier(random_state=0, epochs=2).fit(images, _labels(data.target[:900] % 2 == 1))


def fit_command() -> None:
    """``pucl fit`` on a CSV file."""
    from sklearn.datasets import load_breast_cancer

    from pucl.cli.app import app

    data = load_breast_cancer(as_frame=True)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        path = Path(folder) / "table.csv"
        data.data.assign(known=_labels(data.target == 0)).to_csv(path, index=False)
        app(["fit", str(path), "--label", "known", "--out", f"{folder}/model", "--epochs", "2"], standalone_mode=False)


def smoke() -> None:
    """``pucl bench run paper/smoke.toml``."""
    from pucl.cli.app import app

    grid = Path(__file__).parents[1] / "paper" / "smoke.toml"
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        app(["bench", "run", str(grid), "--results", f"{folder}/results.jsonl"], standalone_mode=False)


TASKS: tuple[tuple[str, Callable[[], None]], ...] = (
    ("table", fit_table), ("images", fit_images), ("fit", fit_command), ("smoke", smoke)
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("tasks", nargs="*", default=[name for name, _ in TASKS])
    for family in FAMILIES:
        entries(family)  # what files do when they are loaded is no call between them
    for name in parser.parse_args().tasks:
        with Calls() as calls:
            dict(TASKS)[name]()
        pairs = calls.two_way()
        between = [(a, b) for a, b in pairs if Path(a).parts[0] != Path(b).parts[0]]
        print(f"{name}: {len(calls.files)} files, {len(pairs)} two-way pairs, {len(between)} of them between packages")
        for a, b in pairs:
            print(f"  {a} ↔ {b}")


if __name__ == "__main__":
    main()
