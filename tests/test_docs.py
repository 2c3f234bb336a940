"""The documentation: links lead somewhere, every page is in the navigation, code compiles and, where marked, runs.

A block after the comment ``<!-- run -->`` is run, in a folder of its own; the blocks of a page share their variables.
``<!-- run: a b>=2.7 -->`` does so where the modules a and b, of 2.7 or newer, are installed. Python runs as it is; of
``sh`` the lines that start with ``pucl``. A block of ``text`` that follows is what it prints, to the first words of
every line.
"""

import contextlib
import importlib.metadata
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, heads

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(
    r"(?:^<!-- (run)(?:: ([\w .>=]+))? -->\n)?^```(?:\{\.)?(\w*)\}?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
OWN_WARNINGS = {"lightning", "transformers", "ray", "pyspark", "dask", "duckdb"}  # what these warn of is theirs to mend
SNIPPET = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text with snippets filled in, and the line it starts in."""

    language: str
    text: str
    line: int
    run: bool
    modules: tuple[str, ...]
    included: bool


def blocks(page: Path) -> list[Block]:
    content = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(content):
        run, modules, language, text = match.groups()
        filled = SNIPPET.sub(lambda name: (ROOT / name[1]).read_text(encoding="utf-8"), text)
        line = content[: match.start(4)].count("\n")
        needs = tuple((modules or "").split())
        found.append(Block(language, filled, line, run is not None, needs, included=filled != text))
    return found


def runnable(page: Path) -> bool:
    return any(block.run for block in blocks(page))


def is_here(need: str) -> bool:
    module, _, lowest = need.partition(">=")
    if importlib.util.find_spec(module) is None:
        return False
    return not lowest or numbers(importlib.metadata.version(module)) >= numbers(lowest)


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_public_names_are_in_the_reference() -> None:
    import pucl

    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    listed = {name.rsplit(".", 1)[1] for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    assert set(pucl.__all__) <= listed


@every_page
def test_python_compiles(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile("\n" * block.line + block.text, str(page), "exec")


def test_code_of_tutorials_is_run_or_included() -> None:
    for page in (DOCS / "tutorials").glob("*.md"):
        for block in blocks(page):
            assert block.language != "python" or block.run or block.included, f"{page.name}, line {block.line}"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=lambda page: page.stem)
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names: dict[str, Any] = {}
    printed = None
    for block in blocks(page):
        if block.run and all(is_here(module) for module in block.modules):
            with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
                if OWN_WARNINGS & {*block.modules}:
                    warnings.simplefilter("ignore")
                run(block, page, names)
            printed = out.getvalue()
        elif block.language == "text" and printed is not None:
            assert heads(printed) == heads(block.text), f"{page.name}, line {block.line}"
            printed = None


def run(block: Block, page: Path, names: dict[str, Any]) -> None:
    if block.language == "python":
        exec(compile("\n" * block.line + block.text, str(page), "exec"), names)  # noqa: S102
        return
    from pucl.cli.app import app

    for line in commands(block.text):
        app(line, standalone_mode=False)


def commands(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("pucl "):
            yield shlex.split(line, comments=True)[1:]
        elif line.startswith("head "):
            name = shlex.split(line)[-1]
            print(*Path(name).read_text(encoding="utf-8").splitlines()[:4], sep="\n")  # noqa: T201


@pytest.mark.slow
@pytest.mark.skipif(
    not (is_here("mkdocs") and is_here("material") and is_here("mkdocstrings")),
    reason="mkdocs is not installed: make docs",
)
def test_site_builds_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="((?:https?:)?//[^"]+)"', text)
        assert not fetched, page.name
