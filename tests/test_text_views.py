"""Random views of texts, and the projection that is trained on them."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pucl import PUClassifier
from pucl.data.own.batch import load
from pucl.errors import InputError
from pucl.fitting.plan import FitOptions
from pucl.fitting.text_views import text_views
from pucl.models.schema import learn_schema
from pucl.texts.tokens import words_of
from pucl.texts.views import drop_words
from text_examples import mails

TEXTS, TRUTH, S = mails()
QUICK: dict[str, Any] = {"epochs": 3, "random_state": 0, "labeller": "kernel_cvir", "head": "linear"}


def views(texts: list[str], seed: int = 0, **shares: float) -> list[str]:
    return drop_words(texts, np.random.default_rng(seed), **shares)


def is_part(part: list[str], whole: list[str]) -> bool:
    """Whether the words stand in the whole in the same order."""
    rest = iter(whole)
    return all(word in rest for word in part)


def test_a_view_is_a_part_of_the_text_in_its_order() -> None:
    for text, view in zip(TEXTS, views(TEXTS), strict=True):
        assert view and is_part(words_of(view), words_of(text))
    assert views(TEXTS) == views(TEXTS) != views(TEXTS, seed=1)
    assert views(TEXTS, dropped=0.0, span=0.0) == TEXTS


def test_how_much_is_left_out() -> None:
    text = [" ".join(f"w{i}" for i in range(100))] * 400
    singly = np.mean([len(words_of(view)) for view in views(text, dropped=0.3, span=0.0)])
    in_a_row = [words_of(view) for view in views(text, dropped=0.0, span=0.3)]
    assert singly == pytest.approx(70, abs=1)
    assert np.mean([len(words) for words in in_a_row]) == pytest.approx(85, abs=2)
    for words in in_a_row:  # one gap at most
        number = np.array([int(word[1:]) for word in words])
        assert (np.diff(number) > 1).sum() <= 1 and len(words) >= 70


def test_odd_texts_have_views() -> None:
    assert views(["", "word", "!?", "  "], dropped=1.0) == ["", "word", "!?", "  "]
    assert words_of(views(["one two"], dropped=1.0)[0]) in (["one"], ["two"]), "a word is always left"
    (view,) = views(["電池が熱くなりました"], dropped=0.5)
    assert 0 < len(view) < 10 and is_part(list(view), list("電池が熱くなりました"))
    assert views(["Hot, HOT!  Box."], dropped=0.0, span=0.0) == ["Hot, HOT!  Box."], "signs stay with their words"


def test_views_become_vectors_like_their_texts() -> None:
    schema, rows = learn_schema(TEXTS)
    assert text_views(schema, rows, load(schema.open(TEXTS)), FitOptions()) is None
    banks = text_views(schema, rows, load(schema.open(TEXTS)), FitOptions(tune="head", seed=3))
    assert banks is not None and banks.shape == (len(TEXTS), 3, rows.shape[1])
    assert (banks[:, 0] == schema.features(rows)).all() and (banks[:, 1] != banks[:, 2]).any()
    alike = [float(np.corrcoef(banks[i, 1].numpy(), banks[i, 0].numpy())[0, 1]) for i in range(40)]
    others = [float(np.corrcoef(banks[i, 1].numpy(), banks[i + 1, 0].numpy())[0, 1]) for i in range(40)]
    assert np.mean(alike) > np.mean(others) + 0.3


@pytest.mark.slow
def test_a_projection_is_trained_on_views(tmp_path: Any) -> None:
    texts, _, s = mails(400)
    fitted = PUClassifier(tune="head", **QUICK).fit(texts, s)
    assert fitted.choices_["encoder"] == "mlp" and len(fitted.history_) == 3
    assert any("Views: words and spans left out of the texts" in reason for reason in fitted.reasons_)
    scale = fitted.model_.encoder.standardise.scale
    assert (scale == scale[..., :1]).all(), "vectors of texts keep the scales of their dimensions"
    new, truth, _ = mails(100, seed=1)
    score = fitted.decision_function(new)
    assert roc_auc_score(truth, score) > 0.9
    fitted.save(tmp_path / "model")
    np.testing.assert_allclose(PUClassifier.load(tmp_path / "model").decision_function(new), score, atol=1e-5)


@pytest.mark.slow
def test_auto_compares_both() -> None:
    fitted = PUClassifier(tune="auto", epochs=3, random_state=0).fit(TEXTS, S)
    names = [candidate.name for candidate in fitted.model_.record.candidates]
    assert any(name.startswith("raw") for name in names) and any(name.startswith("trained") for name in names)


def test_tune_needs_an_encoder_or_texts_alone() -> None:
    pd = pytest.importorskip("pandas")
    mixed = pd.DataFrame({"mail": TEXTS, "size": range(len(TEXTS))})
    for rows in (mixed, np.random.default_rng(0).normal(size=(240, 3))):
        with pytest.raises(InputError, match="PUClassifier: tune must be 'all', or left out, .*unless all rows"):
            PUClassifier(tune="head").fit(rows, S)
