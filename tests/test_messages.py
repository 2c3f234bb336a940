"""What the library says to people goes through the logger "pucl"; it never prints."""

import ast
import logging
from typing import Any

import numpy as np
import pytest

from pucl import PUClassifier

from conftest import SRC

X, S = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) < 30


def quick(**options: Any) -> PUClassifier:
    return PUClassifier(encoder="raw", head="linear", labeller="pupl", prior=0.3, random_state=0, **options).fit(X, S)


def test_verbose_shows_messages_in_a_program_without_logging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("pucl")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [])  # without those of pytest
    model = quick(verbose=True)
    assert capsys.readouterr().out == model.summary() + "\n"
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)
    quick()
    assert capsys.readouterr().out == ""


def test_messages_go_where_the_program_sends_its_logs(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    model = quick(verbose=True)
    assert [(each.name, each.levelname, each.getMessage()) for each in caplog.records] == [
        ("pucl", "INFO", model.summary())
    ]
    assert capsys.readouterr().out == ""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="pucl"):
        quick()
    assert len(caplog.records) == 1, "whoever asks for the logs gets them without verbose, too"


def test_no_module_of_the_library_prints() -> None:
    calls = [
        f"{path.name}:{node.lineno}"
        for path in sorted((SRC / "pucl").rglob("*.py"))
        if "cli" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert calls == []
