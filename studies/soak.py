"""Memory and open files of one process that runs pucl again and again, often disturbed: the figure of its looks.

    PYTHONPATH=tests:src python -m torture --soak 60 --seed 31 --looks looks.jsonl   # an hour; then, from the looks:
    python studies/soak.py --looks looks.jsonl                                      # docs/images/soak.svg

Without --looks the figure is that of results/studies/soak-cpu.jsonl. The first line of a run says what ran and, as its
"label", how it is called; every other line is a look at the process (see `tests/torture/soak.py`).
"""

import argparse
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from pucl.bench.figures.drawing import draw
from pucl.bench.figures.picture import Curve, Panel, Picture
from pucl.files import replace_file

ROOT = Path(__file__).parents[1]
LOOKS, OUT = ROOT / "results" / "studies" / "soak-cpu.jsonl", ROOT / "docs" / "images" / "soak.svg"


@dataclass(frozen=True)
class Soak:
    """One run: what ran, and the looks."""

    about: dict[str, Any]
    looks: list[dict[str, Any]]

    def curve(self, name: str, unit: float) -> Curve:
        """One figure of the looks over minutes."""
        minutes = tuple(look["seconds"] / 60 for look in self.looks)
        return Curve(self.about.get("label", "soak"), minutes, tuple(look[name] / unit for look in self.looks))

    def conditions(self) -> str:
        """What ran, in words."""
        last = self.looks[-1]
        return (
            f"{self.about.get('label', 'soak')}: {last['runs']:,} runs of fit, predict, embed and report, "
            f"{last['disturbed']:,} of them with a fault, seed {self.about['seed']}"
        )


def read(path: Path) -> list[Soak]:
    """The runs of a file."""
    soaks: list[Soak] = []
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if "minutes" in line:
            soaks.append(Soak(line, []))
        else:
            soaks[-1].looks.append(line)
    return soaks


def picture(soaks: list[Soak]) -> Picture:
    """Memory, open files and threads over minutes; memory has an axis that does not begin at 0."""
    panels = []
    for title, name, label, unit in (
        ("Resident memory", "memory", "MB", 1e6),
        ("Open files", "files", "number", 1),
        ("Threads", "threads", "number", 1),
    ):
        curves = tuple(soak.curve(name, unit) for soak in soaks)
        values = [y for curve in curves for y in curve.y]
        ends = (min(values) - 20, max(values) + 20) if name == "memory" else (0, 1.5 * max(values))
        panels.append(Panel(title, "minutes", label, curves, y_range=ends))
    about = soaks[-1].about
    where = f"one process on a busy CPU, Python {about['python']}, torch {about['torch']}"
    conditions = "; ".join([*(soak.conditions() for soak in soaks), where])
    return Picture("A process that lives long", conditions, tuple(panels), columns=3)


def main() -> None:
    """Read the looks, draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--looks", type=Path, default=LOOKS)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "soak"}):  # the same data give the same file
        draw(picture(read(given.looks))).savefig(buffer, format="svg", metadata={"Date": None})
    replace_file(given.out, buffer.getvalue())
    print(given.out)


if __name__ == "__main__":
    main()
