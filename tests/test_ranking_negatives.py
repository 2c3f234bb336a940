"""Confirmed negatives in rankers, labellers and π̂: what every registered method must do with them."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from pucl.errors import InputError, RunWarning
from pucl.heads import fit_head
from pucl.numerics.auc import auc
from pucl.pseudo_labels import PseudoLabels, labellers, pseudo_label
from pucl.pseudo_labels.pupl import lloyd, seed_centres
from pucl.ranking.prior import estimate_prior
from pucl.ranking.rows import fitted_rows, folds_of
from pucl.registry import entries

LABELLERS, RANKERS = tuple(labellers()), tuple(entries("rankers"))
Problem = tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]


def rows_of(seed: int, prior: float, sizes: tuple[int, int, int]) -> tuple[Any, Any, Any, Any]:
    """A generator, s, the confirmed negatives and the truth of so many rows of P, U and N."""
    r, (n_p, n_u, n_n) = np.random.default_rng(seed), sizes
    y = np.concatenate([np.ones(n_p, dtype=bool), r.random(n_u) < prior, np.zeros(n_n, dtype=bool)])
    row = np.arange(len(y))
    return r, row < n_p, row >= n_p + n_u, y


def two_gaussians(
    seed: int = 0, *, gap: float = 1.0, prior: float = 0.1, sizes: tuple[int, int, int] = (100, 3000, 200)
) -> Problem:
    """Two Gaussians `gap` standard deviations apart in one of four directions: x, s, negatives, truth."""
    r, s, negative, y = rows_of(seed, prior, sizes)
    x = r.normal(size=(len(y), 4))
    x[:, 0] += gap * y
    return x.astype(np.float32), s, negative, y


def many_modes(seed: int = 0, *, prior: float = 0.6, sizes: tuple[int, int, int] = (80, 600, 150)) -> Problem:
    """Four modes of each class in ten directions, which overlap."""
    r, s, negative, y = rows_of(seed, prior, sizes)
    modes = np.random.default_rng(99).normal(size=(8, 10))
    x = modes[2 * r.integers(4, size=len(y)) + ~y] + 0.9 * r.normal(size=(len(y), 10))
    return x.astype(np.float32), s, negative, y


def true_auc(pseudo: PseudoLabels, y: Any, rows: Any) -> float:
    score = pseudo.probability.double().numpy()
    return float(auc(score[rows & y], score[rows & ~y])[0])


def once(name: str) -> dict[str, Any]:
    """Options that make a method fast."""
    fast, takes = {"repeats": 1, "n_trees": 8}, inspect.signature(labellers()[name].function).parameters
    return {option: value for option, value in fast.items() if option in takes}


@pytest.mark.parametrize("name", LABELLERS)
def test_they_are_negative_for_certain(name: str) -> None:
    x, s, negative, y = two_gaussians(gap=4.0, prior=0.4, sizes=(40, 200, 30))
    pseudo = pseudo_label(x, s, method=name, negatives=negative, **once(name))
    assert not pseudo.labels[negative].any() and (pseudo.probability[negative] == 0).all()
    assert (pseudo.reliability[negative] == 1).all() and pseudo.labels[s].all()
    free = ~(s | negative)
    assert (pseudo.labels.numpy() == y)[free].mean() > 0.8
    assert pseudo.prior == pytest.approx(y[free].mean(), abs=0.2)
    assert pseudo.negative is not None and torch.equal(pseudo.unlabelled(torch.tensor(s)), torch.tensor(free))
    again = pseudo_label(x, s, method=name, negatives=np.flatnonzero(negative), **once(name))
    assert torch.equal(pseudo.probability, again.probability)
    nobody = pseudo_label(x, s, method=name, negatives=[], **once(name))
    assert torch.equal(nobody.probability, pseudo_label(x, s, method=name, **once(name)).probability)


@pytest.mark.parametrize("name", RANKERS)
def test_they_are_scored_by_models_that_did_not_see_them(name: str) -> None:
    """Rows without structure: confirmed negatives must score as the others do, not below them."""
    g = Generator().manual_seed(0)
    z, kind = torch.randn(252, 40, generator=g), torch.arange(252) % 3
    ranking = entries("rankers")[name].function(z, kind == 0, negative=kind == 1, **once(name))
    score = ranking.score.double().numpy()
    assert auc(score[kind == 1], score[kind == 2])[0] == pytest.approx(0.5, abs=0.13)


def test_folds_and_rows_deal_every_kind_evenly() -> None:
    kind = torch.arange(90) % 3
    fold = folds_of("test", kind == 0, 5, 0, kind == 1)
    for number in range(3):
        assert torch.bincount(fold[kind == number]).tolist() == [6] * 5
    used = fitted_rows(kind == 0, 10, 0, kind == 1)
    assert torch.bincount(kind[used]).tolist() == [10] * 3
    with pytest.raises(InputError, match="got 30 labelled and 1 unlabelled"):
        folds_of("test", kind == 0, 5, 0, (kind > 0) & (torch.arange(90) > 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cvir", "kernel_cvir"])
def test_the_ranking_of_many_modes_gains(name: str) -> None:
    gains = []
    for seed in range(3):
        x, s, negative, y = many_modes(seed)
        free = ~(s | negative)
        with_them = pseudo_label(x, s, method=name, negatives=negative, repeats=1)
        without = pseudo_label(x, s, method=name, repeats=1)
        gains.append(true_auc(with_them, y, free) - true_auc(without, y, free))
    assert np.mean(gains) > 0.01


@pytest.mark.slow
def test_the_share_of_overlapping_classes_becomes_known() -> None:
    """π = 0.1: without negatives far off; with 200 of them a mean error that is that of their number."""
    values, without, losses = [], [], []
    for seed in range(5):
        x, s, negative, y = two_gaussians(seed)
        found = pseudo_label(x, s, method="cvir", negatives=negative, repeats=1)
        plain = pseudo_label(x, s, method="cvir", repeats=1)
        values.append(found)
        without.append(plain.prior)
        free = ~(s | negative)
        losses.append(true_auc(plain, y, free) - true_auc(found, y, free))
    assert abs(np.mean([found.prior for found in values]) - 0.1) < 0.05
    assert sum(low <= 0.1 <= high for low, high in (found.interval or (1, 0) for found in values)) >= 4
    assert np.mean(without) > 0.3 and np.mean(losses) < 0.01


def test_estimate_prior_from_scores_and_from_rows() -> None:
    x, s, negative, y = two_gaussians(3, sizes=(100, 600, 400))
    share = y[~(s | negative)].mean()
    of_scores = estimate_prior(x[:, 0], s, negatives=negative)
    of_rows = estimate_prior(x, s, negatives=negative)
    for estimate, plain in ((of_scores, estimate_prior(x[:, 0], s)), (of_rows, estimate_prior(x, s))):
        assert abs(estimate.value - share) < 0.1 and plain.value > share + 0.15
        assert estimate.low < estimate.value < estimate.high < estimate.low + 0.4
    assert (of_scores.method, of_rows.method) == ("adjusted_count", "adjusted_count")
    free = ~negative  # a named estimator sees P and U alone
    assert estimate_prior(x[:, 0], s, negatives=negative, method="bbe") == (
        estimate_prior(x[free, 0], s[free], method="bbe")
    )


def test_negatives_that_are_not_a_random_sample_are_not_counted() -> None:
    x, s, _, _ = two_gaussians(1, sizes=(100, 600, 0))
    hard = np.argsort(-x[:, 0] + 100 * s)[:60]  # the highest of U
    with pytest.warns(RunWarning, match="they do not look like a random sample"):
        estimate = estimate_prior(x[:, 0], s, negatives=hard)
    assert estimate.method == "bbe"
    with pytest.warns(RunWarning, match="without the 5 negatives: at least 10 are needed"):
        estimate_prior(x[:, 0], s, negatives=np.flatnonzero(~s)[:5])


def test_pupl_starts_at_the_mean_of_the_negatives_and_keeps_them() -> None:
    x, s, negative, _ = two_gaussians(gap=3.0, sizes=(20, 200, 20))
    z = torch.nn.functional.normalize(torch.tensor(x), dim=1)
    labelled, known = torch.tensor(s), torch.tensor(negative)
    centres = seed_centres(z, labelled, Generator().manual_seed(0), known)
    assert torch.allclose(centres[1], z[known].mean(0)) and torch.allclose(centres[0], z[labelled].mean(0))
    swapped = lloyd(z, labelled, centres.flip(0), negative=known, max_iter=1)
    assert swapped.positive[labelled].all() and not swapped.positive[known].any()


@pytest.mark.parametrize("method", ["linear", "knn", "nnpu", "upu", "kernel", "mlp", "nearest_centroid"])
def test_heads_take_them_through_the_labels(method: str) -> None:
    x, s, negative, y = two_gaussians(gap=4.0, prior=0.4, sizes=(40, 200, 60))
    z, labelled = torch.tensor(x), torch.tensor(s)
    head = fit_head(z, labelled, pseudo_label(z, s, method="cvir", negatives=negative, repeats=1), method=method)
    with torch.no_grad():
        called: Tensor = head(z) > 0
    assert float((called.numpy() == y)[~s].mean()) > 0.8


@pytest.mark.parametrize(
    ("call", "owner"),
    [
        (lambda x, s, n: pseudo_label(x, s, negatives=n), "pucl.pseudo_label"),
        (lambda x, s, n: estimate_prior(x, s, negatives=n), "pucl.estimate_prior"),
    ],
)
def test_a_row_that_is_both(call: Any, owner: str) -> None:
    x, s, _, _ = two_gaussians(sizes=(10, 30, 5))
    with pytest.raises(
        InputError, match=f"^{owner}: negatives must be rows that are not labelled positive; got row 4,"
    ):
        call(x, s, [4, 44])
