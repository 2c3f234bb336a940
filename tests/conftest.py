import gc
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch

if TYPE_CHECKING:
    from report_browser import Browser

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"


class Run(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Run]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``cuda`` are skipped where there is no CUDA device."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collection_finish() -> None:
    """Tests and modules last to the end, so that garbage need not be looked for among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """In the background of a shell SIGINT is ignored, and processes that tests start would ignore it too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests keep embeddings in a folder of their own."""
    os.environ["PUCL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which data sets are looked for."""
    monkeypatch.setenv("PUCL_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def package_copy(tmp_path: Path) -> Path:
    """A copy of the source tree to add files to and remove files from; put it on PYTHONPATH."""
    import shutil

    shutil.copytree(SRC / "pucl", tmp_path / "src" / "pucl", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``pucl`` with any words, in this process: it need not load torch again."""
    from pucl.cli.app import main

    monkeypatch.setattr(sys.modules["__main__"], "__package__", "")  # the program is pucl, not a module of pytest's
    monkeypatch.setattr("pucl.fitting.progress.PATIENCE", 600.0)  # no lines of progress, however slow the machine is

    def run(*words: Any) -> Run:
        monkeypatch.setattr(sys, "argv", ["pucl", *map(str, words)])
        capsys.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
            main()
        return Run(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def pucl(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The command in this process, in a folder with people.csv in it."""
    from model_examples import write_table

    write_table(tmp_path / "people.csv")
    monkeypatch.chdir(tmp_path)

    def run(*words: Any) -> Run:
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as outside of tests
            return command(*words)

    return run


@pytest.fixture
def bench(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """``pucl bench`` in this process, in a folder with a small grid of baselines, ``g.toml``."""
    from functools import partial

    from bench_examples import GRID

    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.toml").write_text(GRID, encoding="utf-8")
    return partial(command, "bench")


@pytest.fixture
def empty_bench(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """``pucl bench`` in an empty folder, which has nothing but TOML files when all is over."""
    from functools import partial

    monkeypatch.chdir(tmp_path)
    yield partial(command, "bench")
    assert {path.suffix for path in tmp_path.rglob("*")} <= {".toml"}


@pytest.fixture
def one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labellers that would average several draws make do with one, for time."""
    monkeypatch.setattr("pucl.ranking.draws.REPEATS", ())


def heads(text: str) -> list[str]:
    """The first words of every line, up to a colon or a number; indented lines are reasons and may change."""
    return [re.split(r"[:\d]", line)[0].rstrip() for line in text.splitlines() if line and not line.startswith(" ")]


def environment(pythonpath: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(pythonpath), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def report_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where reports and what is downloaded from them lie."""
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def started_browser(report_folder: Path) -> "Iterator[Browser]":
    """Chromium, started once for a file of tests."""
    from report_browser import Browser

    with Browser(report_folder / "profile") as browser:
        (report_folder / "downloads").mkdir()
        browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(report_folder / "downloads"))
        yield browser


@pytest.fixture
def browser(started_browser: "Browser") -> "Iterator[Browser]":
    """The browser in a known state; afterwards nothing may have been complained about or asked for."""
    from report_browser import complaints, requests

    started_browser.prefer("light")
    started_browser.size(1280)
    yield started_browser
    assert complaints(started_browser) == []
    assert len(requests(started_browser)) == 1  # the page itself
    started_browser.ask("localStorage.clear()")


@pytest.fixture(scope="module")
def report_pages(report_folder: Path) -> dict[str, Path]:
    """A report of every kind of rows."""
    from pucl.report import render
    from report_browser import EXAMPLES
    from report_examples import evidence_of, record_of

    found = {}
    for name, example in EXAMPLES.items():
        found[name] = report_folder / f"{name}.html"
        found[name].write_text(render(record_of(example()), evidence_of(example())), encoding="utf-8")
    return found
