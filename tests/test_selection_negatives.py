"""Judging with confirmed negatives: they are no part of U, and what they show needs no π."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pucl.errors import InputError
from pucl.metrics import evaluate
from pucl.pseudo_labels import PseudoLabels
from pucl.selection import diagnose, hold_out, pu_scores, select, threshold_curve

P, N, PRIOR = 100, 200, 0.2


def draw(seed: int = 0, *, gap: float = 1.5, n_u: int = 2000) -> tuple[Any, Any, Any, Any]:
    """Logits, s, confirmed negatives and the truth: 100 positives, U, 200 negatives."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.ones(P, dtype=bool), rng.random(n_u) < PRIOR, np.zeros(N, dtype=bool)])
    row = np.arange(len(y))
    return rng.normal(np.where(y, gap, -gap) / 2), row < P, row >= P + n_u, y


def test_figures_of_p_and_u_are_those_without_the_negatives() -> None:
    logits, s, negative, _ = draw()
    with_them, alone = (
        pu_scores(logits, s, prior=PRIOR, negatives=negative), pu_scores(logits[~negative], s[~negative], prior=PRIOR)
    )  # fmt: skip
    assert replace(with_them, specificity=None, pn_auc=None) == alone
    assert alone.specificity is None and "specificity" not in str(alone)
    curve, plain = (
        threshold_curve(logits, s, PRIOR, negatives=np.flatnonzero(negative)),
        threshold_curve(logits[~negative], s[~negative], PRIOR),
    )
    np.testing.assert_array_equal(curve.f1, plain.f1)
    assert curve.found[-1] == 2000


def test_specificity_and_auc_are_those_against_the_truth() -> None:
    logits, s, negative, y = draw()
    scores = pu_scores(logits, s, prior=PRIOR, negatives=negative, threshold=0.3)
    assert scores.specificity is not None and scores.pn_auc is not None
    assert scores.specificity.value == pytest.approx((logits[~y & ~s] <= 0.3).mean(), abs=3 * scores.specificity.error)
    assert scores.specificity.value == (logits[negative] <= 0.3).mean()
    assert scores.pn_auc.value == pytest.approx(evaluate(y, logits).auc, abs=3 * scores.pn_auc.error)
    assert "specificity 0." in str(scores)


def test_the_share_of_select_is_known_with_negatives() -> None:
    values = []
    for seed in range(10):
        logits, s, negative, _ = draw(seed)
        values.append([select({"a": logits}, s, negatives=negative).prior, select({"a": logits}, s).prior])
    with_them, without = np.mean(values, axis=0)
    assert abs(with_them - PRIOR) < 0.03 and without > PRIOR + 0.05


def test_hold_out_takes_the_same_share_of_every_kind() -> None:
    _, s, negative, _ = draw()
    held = hold_out(s, share=0.2, negatives=negative)
    assert [int(held[kind].sum()) for kind in (s, negative, ~s & ~negative)] == [20, 40, 400]
    assert hold_out([1, 1, 0, 0, 0, 0], share=0.5, negatives=[5])[5] == np.False_  # a single one is left


def test_a_diagnosis_leaves_them_out() -> None:
    rng = np.random.default_rng(0)
    kind = np.arange(600) // 200  # P, U, N
    z: NDArray[np.float32] = (rng.normal(size=(600, 4)) + 3 * (kind == 0)[:, None]).astype(np.float32)
    z[200:280] += 3
    s, negative = kind == 0, kind == 2
    pseudo = PseudoLabels.from_probability(torch.tensor(np.where(z[:, 0] > 1.5, 0.9, 0.1)), torch.tensor(s))
    left = torch.tensor(~negative)
    without = diagnose(z[~negative], s[~negative], pseudo=pseudo.only(left), seed=1)
    assert diagnose(z, s, pseudo=pseudo, seed=1, negatives=negative) == without
    assert diagnose(z, s, pseudo=pseudo, seed=1) != without


@pytest.mark.parametrize(
    ("function", "owner"),
    [
        (lambda x, s, n: pu_scores(x, s, prior=0.3, negatives=n), "pucl.pu_scores"),
        (lambda x, s, n: threshold_curve(x, s, 0.3, negatives=n), "pucl.threshold_curve"),
        (lambda x, s, n: select({"a": x}, s, negatives=n), "pucl.select"),
        (lambda _, s, n: hold_out(s, negatives=n), "pucl.hold_out"),
        (lambda x, s, n: diagnose(x[:, None], s, negatives=n), "pucl.diagnose"),
    ],
)
def test_a_row_that_is_both(function: Any, owner: str) -> None:
    logits, s, _, _ = draw()
    with pytest.raises(
        InputError, match=f"^{owner}: negatives must be rows that are not labelled positive; got row 7,"
    ):
        function(logits, s, [2000, 7])
