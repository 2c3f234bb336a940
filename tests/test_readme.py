"""What the README shows is what happens."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.slow
def test_python_block_prints_what_the_readme_says(tmp_path: Path) -> None:
    code, shown = blocks("python")[0], blocks("text")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found, promised = (re.findall(r"(\w+):? (\d\.\d+)", text) for text in (run.stdout, shown))
    assert [name for name, _ in found] == [name for name, _ in promised]
    # Another build of torch rounds differently, and training amplifies it: the promise is not the last digit.
    for (_, value), (_, expected) in zip(found, promised, strict=True):
        assert abs(float(value) - float(expected)) < 0.03


def test_the_two_commands_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("make demo", "make test"):
        assert command in README
        assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE)


def test_one_line_installs_what_every_command_needs() -> None:
    """The commands read tables and images and export to ONNX; the demo draws."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert "pip install -e '.[all]'" in blocks("sh")[0] and extras["all"] == ["pucl[data,export,plots]"]
    commands = next(block for block in blocks("sh") if "pucl fit" in block)
    assert re.findall(r"^pucl (\w+)", commands, re.MULTILINE) == [
        "fit",
        "report",
        "predict",
        "predict",
        "review",
        "export",
    ]


def test_documents_point_to_files_that_exist() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (ROOT / target).exists(), f"{name} points to {target}"
