"""The examples run, reach their own targets and print what the tutorials show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, heads

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = 70  # lines
LOOSE = 0.06  # another build of torch rounds differently, and training amplifies it

every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def truths(text: str) -> list[float]:
    lines = [line for line in text.splitlines() if line.startswith("with the truth")]
    return [float(value) for line in lines for value in re.findall(r"\d\.\d+", line)]


def test_there_are_examples() -> None:
    assert [path.stem for path in EXAMPLES] == ["images", "table", "text"]


@every_example
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST


@pytest.mark.slow
@every_example
def test_examples_reach_their_target(path: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True, text=True, encoding="utf-8", check=False, cwd=tmp_path, timeout=300,
        env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert not list(tmp_path.iterdir())  # nothing is left behind
    shown = (path.parent / "output" / f"{path.stem}.txt").read_text(encoding="utf-8")
    again = f"write it anew: python examples/{path.name} > examples/output/{path.stem}.txt"
    assert heads(run.stdout) == heads(shown), again
    assert truths(run.stdout) == pytest.approx(truths(shown), abs=LOOSE), again
