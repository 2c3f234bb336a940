"""studies/tabular.py: the splits, resuming, and the line of a missing peer."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "studies" / "tabular.py"


@pytest.fixture(scope="module")
def tabular() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tabular_study", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(tabular: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> list[dict[str, Any]]:
    raw, out = folder / "raw.jsonl", folder / "out.jsonl"
    monkeypatch.setattr(sys, "argv", ["tabular.py", "--raw", str(raw), "--out", str(out), *options])
    tabular.main()
    found: list[dict[str, Any]] = tabular.read(raw)
    return found


@pytest.mark.parametrize("name", ["cancer", "wine", "digits", "blobs", "rare"])
def test_labelled_rows_are_a_share_of_the_training_positives(tabular: ModuleType, name: str) -> None:
    parts = tabular.split(name, 3)
    assert not (parts.s & ~parts.y).any()
    assert parts.s.sum() == round(tabular.LABELLED[name] * parts.y.sum())
    assert len(parts.y_test) == pytest.approx(0.3 * (len(parts.y) + len(parts.y_test)), abs=1)
    assert parts.y.mean() == pytest.approx(parts.y_test.mean(), abs=1 / len(parts.y_test))


def test_a_seed_gives_one_split_and_another_seed_another(tabular: ModuleType) -> None:
    first, again, other = tabular.split("blobs", 0), tabular.split("blobs", 0), tabular.split("blobs", 1)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first.x, other.x)
    assert not np.array_equal(tabular.split("wine", 0).s, tabular.split("wine", 1).s)


def test_every_method_gets_the_same_rows_and_the_truth_only_where_it_is_said(
    tabular: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def spy(name: str) -> Any:
        def method(given: Any) -> Any:
            seen[name] = given
            return lambda x: (np.arange(len(x)) % 2 == 0, np.arange(len(x)))

        return method

    monkeypatch.setattr(tabular, "METHODS", {name: spy(name) for name in tabular.METHODS})
    run(tabular, tmp_path, monkeypatch, "--seeds", "1", "--sets", "wine")
    parts = tabular.split("wine", 0)
    assert "pucl" in seen and "pu-toolbox/nnpu" in seen
    for name, given in seen.items():
        np.testing.assert_array_equal(given.x, parts.x)
        np.testing.assert_array_equal(given.s, parts.s)
        assert (given.y is not None) == (name in {"nnpu_true_prior", "oracle_logistic", "oracle_svc"})


def test_what_is_there_is_not_computed_again(
    tabular: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--sets", "wine", "--methods", "naive", "oracle_logistic")
    first = run(tabular, tmp_path, monkeypatch, "--seeds", "1", *options)
    assert [line["config"]["method"] for line in first] == ["naive", "oracle_logistic"]
    assert {"accuracy", "f1", "auc", "seconds"} == set(first[0]["metrics"])
    assert {"versions", "hardware", "commit"} <= set(first[0])
    more = run(tabular, tmp_path, monkeypatch, "--seeds", "2", *options)
    assert more[:2] == first and len(more) == 4
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["metrics"]["seeds"] for line in lines] == [2, 2]
    assert lines[1]["config"]["knows"] == "the truth"


def test_the_difference_to_pucl_is_paired(tabular: ModuleType) -> None:
    def line(method: str, seed: int, accuracy: float) -> dict[str, Any]:
        metrics = {"accuracy": accuracy, "f1": 0.0, "auc": 0.0, "seconds": 0.0}
        return {"config": {"set": "wine", "method": method, "seed": seed}, "metrics": metrics}

    lines = [line("pucl", 0, 90), line("pucl", 1, 80), line("naive", 0, 89), line("naive", 1, 77), line("naive", 2, 1)]
    _, naive = tabular.summary(lines)
    assert naive["metrics"]["difference"] == pytest.approx(-2)
    assert naive["metrics"]["difference_se"] == pytest.approx(1)


def test_a_missing_peer_is_a_line_and_no_crash(
    tabular: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pulearn", None)
    options = ("--seeds", "2", "--sets", "wine", "--methods", "pulearn/elkanoto_readme", "naive")
    lines = run(tabular, tmp_path, monkeypatch, *options)
    assert [line["config"]["method"] for line in lines] == ["naive", "naive"]
    assert capsys.readouterr().out.count("pulearn/elkanoto_readme skipped: pulearn cannot be imported") == 1


def test_a_method_that_fails_is_counted(tabular: ModuleType) -> None:
    def fails(given: Any) -> Any:
        raise RuntimeError(f"no luck with {len(given.x)} rows")

    metrics = tabular.judge(fails, tabular.split("wine", 0), 0, False)
    assert metrics["error"].startswith("RuntimeError: no luck with")
    (line,) = tabular.summary([{"config": {"set": "wine", "method": "naive", "seed": 0}, "metrics": metrics}])
    assert line["metrics"] == {"seeds": 1, "errors": 1}


def test_a_failure_is_tried_again(tabular: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"config": {"set": "wine", "method": "naive", "seed": 0}, "metrics": {"error": "RuntimeError: once"}}
    (tmp_path / "raw.jsonl").write_text(json.dumps(failed) + "\n")
    lines = run(tabular, tmp_path, monkeypatch, "--seeds", "1", "--sets", "wine", "--methods", "naive")
    assert len(lines) == 2 and "accuracy" in lines[1]["metrics"]
    assert json.loads((tmp_path / "out.jsonl").read_text())["metrics"]["errors"] == 0
