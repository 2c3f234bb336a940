"""What must not change predictions: names, units, order, constant columns and types, to the bit or within rounding."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import pucl
from pucl.numerics.auc import auc
from pucl.registry import entries

Array = NDArray[Any]
NAMES = ("a", "b", "c", "d")
POWERS = 2.0 ** np.array([3, -100, 40, 90])  # to multiply columns by: nothing is rounded
FACTORS, SHIFTS = np.array([3.0, 1e6, 1e-6, 0.7]), np.array([1.0, -5.0, 100.0, 0.0])
LUCK = 0.03  # of AUC, on these rows, between two draws of folds, weights and batches

MODELS: dict[str, Callable[[], Any]] = {
    "auto": lambda: pucl.PUClassifier(random_state=0),
    "linear": lambda: pucl.PUClassifier(encoder="raw", labeller="cvir", head="linear", random_state=0),
    "mlp": lambda: pucl.PUClassifier(encoder="mlp", epochs=2, labeller="cvir", head="linear", random_state=0),
    "nnpu": lambda: pucl.PUBaseline("nnpu", prior=0.35, settings={"epochs": 2}, random_state=0),
}
every_model = pytest.mark.parametrize("name", MODELS)


@cache
def rows(seed: int = 0, n: int = 200) -> tuple[Array, Array, Array]:
    """Two classes, some positives labelled, in numbers that float32 holds exactly: x, s, truth."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    x = rng.standard_normal((n, 4)) + np.array([2.5, 1, 0, 0]) * y[:, None]
    return x.astype(np.float32).astype(np.float64), (y & (rng.random(n) < 0.4)).astype(int), y


def frame(x: Array, names: Any = NAMES) -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(x, columns=list(names))


def fitted(name: str, x: Any, s: Any, new: Any) -> Array:
    """Scores of new rows by a model of others."""
    found: Array = MODELS[name]().fit(x, s).decision_function(new)
    return found


@cache
def usual(name: str) -> tuple[Any, Array]:
    """The model of the rows as they are, and its scores of others."""
    model = MODELS[name]().fit(frame(rows()[0]), rows()[1])
    return model, model.decision_function(frame(rows(1)[0]))


def area(scores: Array) -> float:
    y = rows(1)[2]
    return auc(scores[y], scores[~y])[0]


@every_model
def test_predictions_are_those_of_each_row(name: str) -> None:
    model, scores = usual(name)
    new = frame(rows(1)[0])
    assert np.array_equal(model.decision_function(new[::-1])[::-1], scores)
    alone = np.concatenate([model.decision_function(new[i : i + 1]) for i in range(5)])
    assert np.allclose(alone, scores[:5], rtol=0, atol=1e-5 * np.abs(scores).max())


@every_model
def test_names_decide_where_columns_have_them(name: str) -> None:
    model, scores = usual(name)
    assert np.array_equal(model.decision_function(frame(rows(1)[0])[list("dbca")]), scores)
    more = frame(rows(1)[0]).assign(unknown=3.0)
    assert np.array_equal(model.decision_function(more), scores)


@every_model
def test_neither_names_nor_types_nor_units_in_powers_of_two_nor_constants_matter(name: str) -> None:
    x, s, _ = rows()
    new, scores = rows(1)[0], usual(name)[1]
    assert np.array_equal(fitted(name, frame(x, "zyxw"), s, frame(new, "zyxw")), scores)
    assert np.array_equal(fitted(name, x.astype(np.float32), s, new), scores)
    assert np.array_equal(fitted(name, frame(x * POWERS), s, frame(new * POWERS)), scores)
    constant = (frame(values).assign(k=1e30) for values in (x, new))
    with pytest.warns(UserWarning, match="constant columns are dropped: 'k'"):
        assert np.array_equal(fitted(name, next(constant), s, next(constant)), scores)


@every_model
def test_other_units_matter_within_rounding(name: str) -> None:
    x, s, _ = rows()
    scores = usual(name)[1]
    other = fitted(name, frame(x * FACTORS + SHIFTS), s, frame(rows(1)[0] * FACTORS + SHIFTS))
    if name == "linear":
        assert np.allclose(other, scores, rtol=0, atol=1e-5 * np.abs(scores).max())
    # Rounding grows from step to step of a training, and may send a row to the other side of a split.
    assert area(other) == pytest.approx(area(scores), abs=0.005)


@pytest.mark.slow
@every_model
def test_the_order_of_training_rows_and_columns_is_like_another_seed(name: str) -> None:
    x, s, _ = rows()
    scores, order = usual(name)[1], np.random.default_rng(2).permutation(len(x))
    other = fitted(name, frame(x[order]), s[order], frame(rows(1)[0]))
    assert area(other) == pytest.approx(area(scores), abs=LUCK)
    turned = fitted(name, frame(x)[list("dbca")], s, frame(rows(1)[0]))
    assert area(turned) == pytest.approx(area(scores), abs=LUCK)


@pytest.mark.parametrize("method", [*entries("rankers"), "prototypes", "pupl"])
def test_labellers_take_embeddings_of_any_scale(method: str) -> None:
    x, s, _ = rows()
    z = torch.from_numpy(x[:100] + 1.0)
    first = pucl.pseudo_label(z, s[:100], method=method)
    for scale in (2.0**100, 2.0**-120, 2.0**800):
        other = pucl.pseudo_label(z * scale, s[:100], method=method)
        assert torch.equal(first.labels, other.labels)
        assert torch.equal(first.probability, other.probability)
        assert first.prior == other.prior


@pytest.mark.parametrize("method", ["auto", *entries("priors")])
def test_priors_take_rows_of_any_scale_and_type(method: str) -> None:
    x, s, _ = rows()
    z = x[:100] + 1.0
    z = z.astype(np.float32).astype(np.float64)
    first = pucl.estimate_prior(z, s[:100], method=method)
    assert pucl.estimate_prior(z * 2.0**100, s[:100], method=method) == first
    huge = pucl.estimate_prior((z * 2.0**100).astype(np.float32), s[:100], method=method)
    single = pucl.estimate_prior(z.astype(np.float32), s[:100], method=method)
    assert single.value == pytest.approx(first.value, abs=0.02)
    assert huge.value == pytest.approx(single.value, abs=1e-6)


@pytest.mark.parametrize("method", [name for name, entry in entries("priors").items() if "vector" not in entry.inputs])
def test_priors_of_scores_take_rows_in_any_order(method: str) -> None:
    rng = np.random.default_rng(0)
    p, u = rng.beta(8, 2, 60), np.r_[rng.beta(8, 2, 50), rng.beta(2, 8, 100)]
    estimate = entries("priors")[method].function
    first, other = estimate(p, u), estimate(rng.permutation(p), rng.permutation(u))
    assert other.value == pytest.approx(first.value, abs=1e-9)


def test_scores_without_negatives_do_not_look_at_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    logits, s = rng.standard_normal(200), np.arange(200) < 50
    order = rng.permutation(200)
    first, other = pucl.pu_scores(logits, s, prior=0.3), pucl.pu_scores(logits[order], s[order], prior=0.3)
    for name in ("auc", "f1", "zero_one_risk", "upu_risk"):
        assert getattr(other, name).value == pytest.approx(getattr(first, name).value, abs=1e-12)
    curve, again = (pucl.threshold_curve(*pair, 0.3) for pair in ((logits, s), (logits[order], s[order])))
    assert np.array_equal(curve.precision, again.precision)
    far = pucl.threshold_curve(logits * 2.0**900, s, 0.3)
    assert np.array_equal(far.precision, curve.precision) and np.array_equal(far.f1, curve.f1)


@pytest.mark.parametrize("method", ["linear", "nearest_centroid", "nnpu", "upu"])
def test_linear_heads_take_rows_in_any_order(method: str) -> None:
    x, s, y = rows()
    z = torch.nn.functional.normalize(torch.from_numpy(x), dim=1)
    pseudo = pucl.PseudoLabels.from_probability(torch.from_numpy(y * 0.8 + 0.1), torch.from_numpy(s == 1))
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(x)))
    first = pucl.fit_head(z, s, pseudo, method=method)
    other = pucl.fit_head(z[order], s[order.numpy()], pseudo.only(order), method=method)
    with torch.no_grad():
        assert torch.allclose(first(z), other(z), rtol=0, atol=1e-6)
