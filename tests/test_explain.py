"""Example rows that explain a score: the values that move it, in words, stored and shown."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pucl import PUClassifier
from pucl.models.evidence import Effect, Explained
from pucl.models.folder import load_model
from pucl.report.explained import examples, in_words

QUICK: dict[str, Any] = {"encoder": "raw", "labeller": "cvir", "head": "linear", "random_state": 0}


def problem(n: int = 300) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    rng = np.random.default_rng(0)
    age, job = rng.normal(50, 10, n), rng.choice(["clerk", "clerk", "retired"], n)
    y = (age > 52) | (job == "retired")
    day = np.datetime64("2024-03-01") + rng.integers(0, 300, n)
    return {"age": age, "job": job, "day": day, "noise": rng.normal(size=n)}, y & (rng.random(n) < 0.4)


def test_the_values_that_move_a_score_are_named(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    columns, s = problem()
    frame = pandas.DataFrame(columns)
    model = PUClassifier(**QUICK).fit(frame, s)
    evidence = model.model_.evidence
    assert evidence is not None and len(evidence.explained) == 5
    first, row = evidence.explained[0], int(evidence.top.row[0])
    assert first.id == evidence.top.ids[0] and len(first.effects) == 3
    score = model.decision_function(frame.iloc[[row]])[0]
    sizes = [abs(effect.change) for effect in first.effects]
    assert sizes == sorted(sizes, reverse=True)
    by_name = {effect.column: effect for each in evidence.explained for effect in each.effects}
    assert {"age", "job"} <= set(by_name) and all(effect.change > 0 for effect in first.effects[:2])
    # The change is that of the model when the value is replaced by the median, or the most common category, of U.
    unlabelled = frame[~s]
    for effect in first.effects:
        if effect.column in ("age", "job", "noise"):
            typical = frame.iloc[[row]].copy()
            column = unlabelled[effect.column]
            typical[effect.column] = column.mode()[0] if effect.column == "job" else column.median()
            change = score - model.decision_function(typical)[0]
            assert change == pytest.approx(effect.change, abs=0.02)
    days = evidence.top.values["day"] if evidence.top.values else ()
    assert days[0] == str(columns["day"][row]), "a date is shown as one"
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model").evidence
    assert loaded is not None and loaded.explained == evidence.explained


def test_effects_in_words() -> None:
    row = Explained("17", (Effect("age", "61", 1.23), Effect("job", "", -0.8), Effect("city", "Ulm", 0.012)))
    assert in_words(row) == "age 61: +1.2; job (missing): -0.8; city Ulm: +0.01"
    assert in_words(Explained("3", ())) == "no single value moves it"
    assert examples(()) is None
    page = examples((Explained("<b>", (Effect("<i>", "<u>", 1.0),)),))
    assert page is not None and "&lt;b&gt;" in page and "&lt;i&gt; &lt;u&gt;: +1.0" in page and "<b>" not in page


def test_rows_without_columns_have_no_examples() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 6)).astype(np.float32)
    model = PUClassifier(**QUICK, kind="vector").fit(x, np.arange(80) < 20)
    assert model.model_.evidence is not None and model.model_.evidence.explained == ()
