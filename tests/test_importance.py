"""Importance of columns: which it finds, what counts as one column, what is stored and said."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl import PUClassifier
from pucl.fitting.average import average_rankers
from pucl.fitting.importance import column_importance
from pucl.fitting.plan import FitOptions, FitPlan, plan_fit
from pucl.models.describe import describe
from pucl.models.record import FitRecord
from pucl.models.schema import learn_schema
from pucl.numerics.auc import auc
from pucl.ranking.averaging import MEMBERS, TableRows, rank_all
from pucl.selection.scores import Estimate
from report_examples import record_of, table


def problem(n: int = 700, seed: int = 0) -> tuple[dict[str, Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """Columns of which age, job and the weekday of a date decide."""
    rng = np.random.default_rng(seed)
    job = rng.choice(["clerk", "nurse", "retired"], n)
    day = np.datetime64("2024-01-01") + rng.integers(0, 364, n)
    weekend = (day.astype("datetime64[D]").astype(np.int64) + 3) % 7 >= 5
    age = rng.normal(50, 10, n)
    y = 0.12 * (age - 50) + 2.0 * (job == "retired") + 2.0 * weekend + rng.logistic(size=n) > 1.8
    columns = {"age": np.where(rng.random(n) < 0.1, np.nan, age), "job": job, "day": day, "noise": rng.normal(size=n)}
    return columns, y & (rng.random(n) < 0.5), y


def planned(x: Any, s: NDArray[np.bool_], **options: Any) -> FitPlan:
    import torch

    schema, rows = learn_schema(x)
    return plan_fit(rows, s.astype(int), schema, FitOptions(**options), torch.device("cpu"))


@pytest.mark.slow
def test_columns_that_decide_are_found(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    columns, s, _ = problem()
    model = PUClassifier(random_state=0).fit(pandas.DataFrame(columns), s)
    assert set(model.importance_) == set(columns), "a date with its parts is one column, and so is a category"
    assert list(model.importance_)[-1] == "noise"
    for name, drop in model.importance_.items():
        assert (drop.value > 2 * drop.error) == (name != "noise")
    assert sorted(drop.value for drop in model.importance_.values()) == [
        drop.value for drop in reversed(model.importance_.values())
    ]
    assert "Columns that matter most: " in model.summary() and "noise 0." not in model.summary()
    model.save(tmp_path / "model")
    assert PUClassifier.load(tmp_path / "model").importance_ == model.importance_


def test_the_same_seed_gives_the_same_importance_and_no_time_gives_none() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    s = (np.arange(200) % 3 == 0) & (x[:, 1] > 0)
    plan = planned(x, s)
    average = average_rankers(plan)
    found = column_importance(plan, average)
    assert found == column_importance(plan, average) and next(iter(found)) == "x1"
    assert column_importance(replace(plan, deadline=time.perf_counter() - 1), average) == {}
    images = replace(plan, schema=replace(plan.schema, kind="vector"))
    assert column_importance(images, average) == {}


@pytest.mark.parametrize("categories", [(), (1,)], ids=["numbers", "categories"])
def test_rows_in_their_own_place_are_scored_by_models_that_did_not_see_them(categories: tuple[int, ...]) -> None:
    """The labels are random, so that only a model that saw a row ranks it high."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5)).astype(np.float32)
    x[:, 1] = rng.integers(0, 40, 400)
    s = np.arange(400) < 150
    ranked, _ = rank_all(TableRows(x, categories, (x - x.mean(0)) / x.std(0), s, None, 0))
    assert len(ranked) == sum(len(member.names) for member in MEMBERS)
    for each in ranked:
        assert each.unseen is not None
        rows = x if each.takes == "columns" else (x - x.mean(0)) / x.std(0)
        score = each.unseen(np.arange(400), np.stack([rows, rows]))
        assert score.shape == (2, 400) and np.allclose(score[0], score[1], atol=1e-3)
        area, error = auc(score[0][s], score[0][~s])
        assert abs(area - 0.5) < 4 * error, each.name


def test_a_summary_without_clear_columns_says_so() -> None:
    record = record_of(table())
    assert "Columns that matter most: worst radius 0.080 ± 0.020, by the drop" in describe(record)
    unclear = replace(record, importance={"a": Estimate(0.01, 0.02), "b": Estimate(-0.01, 0.02)})
    assert "Columns that matter most: none alone by more than noise (a 0.010 ± 0.020, b -0.010 ± 0.020)" in describe(
        unclear
    )
    assert "Columns that" not in describe(replace(record, importance={}))
    assert FitRecord.from_dict({**record.to_dict(), "importance": {}}).importance == {}
