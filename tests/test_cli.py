"""The command as people type it: exit codes, one-line errors, start-up."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from pucl import __version__
from pucl.registry import FAMILIES

SUGGESTS = "suggest_commands" in inspect.signature(typer.Typer).parameters  # later versions of typer do


def pucl(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pucl", *words], capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("demo", "--seed", "abc"), "pucl demo: --seed must be a whole number; got 'abc'"),
        (("demo", "--seed", "-1"), "pucl demo: --seed must be a whole number ≥ 0; got -1"),
        (("demo", "--sed", "1"), " --seed"),  # the nearest option, in the words of typer or of click
        (("demo", "--sed", "1"), "Try 'python -m pucl demo --help'."),
        (("demo", "--out", "/proc/nothing/here"), "--out must be a folder that can be written to"),
        (("list", "losess"), "unknown family 'losess': did you mean 'losses'?"),
        (("dmo",), "Did you mean 'demo'?" if SUGGESTS else "pucl: No such command 'dmo'."),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(words: tuple[str, ...], message: str) -> None:
    run = pucl(*words)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1 and run.stderr.startswith("pucl") and message in run.stderr


@pytest.mark.slow
def test_out_that_is_a_file_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    run = pucl("demo", "--out", str(tmp_path / "taken"))
    assert run.returncode == 2 and run.stderr.count("\n") == 1 and "--out must be a folder" in run.stderr
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.slow
def test_list_shows_every_family() -> None:
    run = pucl("list", "--json")
    assert run.returncode == 0 and run.stderr == ""
    content = json.loads(run.stdout)
    assert list(content) == list(FAMILIES)
    assert {"name": "pucl", "reference": "eq:puCL"}.items() <= next(
        entry for entry in content["losses"] if entry["name"] == "pucl"
    ).items()
    assert "pupl" in pucl("list", "pseudo-labellers").stdout


def test_help_and_version() -> None:
    for words in (("--help",), ("-h",), ()):
        run = pucl(*words)
        assert run.returncode == 0 and "demo" in run.stdout and "list" in run.stdout
    assert pucl("--version").stdout == f"pucl {__version__}\n"
    for verb in ("demo", "list"):
        assert "Example: pucl" in pucl(verb, "--help").stdout
