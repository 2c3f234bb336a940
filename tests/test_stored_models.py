"""Models that earlier code has written: they load, and say of the same rows what they said then."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import special

from model_examples import resign
from pucl import PUClassifier
from pucl.models.describe import describe
from pucl.models.folder import FORMAT, OLDEST, load_model, read_card, save_model
from pucl.models.record import VERSION

STORED = Path(__file__).parent / "stored_models"
NAMES = sorted(path.stem for path in STORED.glob("*.json"))


def made(name: str) -> dict[str, Any]:
    """The versions of a model, rows, and the probabilities it gave them when it was written."""
    content: dict[str, Any] = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    return content


def rows_of(name: str) -> Any:
    rows = made(name)["rows"]
    return pd.DataFrame(rows) if "table" in name else np.array(rows, dtype=np.float32)


def check(classifier: PUClassifier, name: str) -> None:
    """The probabilities are those of then to 1e-6 with the head in float64, and to 2e-6 in float32 as it is.

    How sums are rounded in float32 differs between versions of torch: with 2.4 by up to 1.6e-6.
    """
    rows = rows_of(name)
    found = classifier.predict_proba(rows)[:, 1]
    head = classifier.model_.head
    with mock.patch.object(head, "forward", lambda z, forward=head.forward: forward(z.double())):
        head.double()
        exact = classifier.decision_function(rows)
        head.float()
    np.testing.assert_allclose(special.expit(exact), made(name)["probability"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(found, special.expit(exact), rtol=0, atol=2e-6)


def test_every_version_has_a_model() -> None:
    """Who raises a version stores a model of it: python tests/stored_models/make.py NAME."""
    for kind in ("table", "vectors"):
        versions = {(made(name)["format"], made(name)["record"]) for name in NAMES if kind in name}
        assert {format_ for format_, _ in versions} == {*range(OLDEST, FORMAT + 1)}
        assert {record for _, record in versions} == {*range(1, VERSION + 1)}


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_model_loads_and_predicts_the_same(name: str) -> None:
    known = made(name)
    card = read_card(STORED / name)
    assert card.format == known["format"]
    classifier = PUClassifier.load(STORED / name)
    check(classifier, name)
    assert np.ptp(classifier.predict_proba(rows_of(name))[:, 1]) > 0.1  # rows that are told apart
    assert describe(load_model(STORED / name).record)


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_model_is_stored_anew(name: str, tmp_path: Path) -> None:
    save_model(tmp_path / "model", load_model(STORED / name))
    content = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    assert (content["format"], content["record"]["record_version"]) == (FORMAT, VERSION)
    check(PUClassifier.load(tmp_path / "model"), name)


@pytest.mark.parametrize(("said", "meant"), [(False, None), (True, "fixed labels")])
def test_the_first_models_said_only_whether_they_were_fine_tuned(said: bool, meant: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(STORED / "first-vectors", folder)
    content = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    content["about"]["choices"]["fine_tuned"] = said
    resign(folder, content)
    assert load_model(folder).record.choices.fine_tuned == meant
